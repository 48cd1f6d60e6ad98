// Stands in for the launcher in the supervisor's own tests: a network namespace with nothing but
// loopback, a resolver's socket in it, the filter, and then the command.
//
//   enter FILTER COMMAND...     standard input is a socket, over which the two descriptors are passed
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void write_text(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0 || write(file, text, strlen(text)) < 0) err(1, "%s", path);
    close(file);
}

static void pass(int socket, int file) {
    char byte = 'x', control[CMSG_SPACE(sizeof file)] = {0};
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(header), &file, sizeof file);
    if (sendmsg(socket, &message, 0) < 0) err(1, "sendmsg");
}

int main(int argc, char **argv) {
    char map[64];
    int user = getuid(), group = getgid();
    if (argc < 3 || unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS) < 0) err(1, "unshare");
    write_text("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%d %d 1", user, user);
    write_text("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%d %d 1", group, group);
    write_text("/proc/self/gid_map", map);
    mount("", "/", "", MS_REC | MS_PRIVATE, "");
    char path[] = "/tmp/stockade-resolv-XXXXXX", hosts[] = "/tmp/stockade-hosts-XXXXXX";
    close(mkstemp(path));
    close(mkstemp(hosts));
    write_text(path, "nameserver 127.0.0.1\n");
    write_text(hosts, "127.0.0.1 localhost\n::1 localhost\n");
    if (mount(path, "/etc/resolv.conf", "", MS_BIND, "") < 0) err(1, "resolv.conf");
    if (mount(hosts, "/etc/hosts", "", MS_BIND, "") < 0) err(1, "hosts");
    unlink(path);
    unlink(hosts);

    int resolver = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (ioctl(resolver, SIOCSIFFLAGS, &request) < 0) err(1, "lo");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(resolver, (void *)&address, sizeof address) < 0) err(1, "bind");

    static struct sock_filter instructions[1024];
    FILE *file = fopen(argv[1], "re");
    if (!file) err(1, "%s", argv[1]);
    size_t count = fread(instructions, sizeof *instructions, 1024, file);
    struct sock_fprog program = {count, instructions};
    pass(0, resolver);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) err(1, "no_new_privs");
    // 0x20: once a call has been taken up, only death interrupts it.
    int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | 0x20, &program);
    if (listener < 0) err(1, "seccomp");
    pass(0, listener);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    execvp(argv[2], argv + 2);
    err(127, "%s", argv[2]);
}
