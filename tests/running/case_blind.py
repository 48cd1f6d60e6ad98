"""A file system in memory that takes upper and lower case for the same, as those of other systems do.

    case_blind.py DIRECTORY COMMAND...    mounts it at DIRECTORY and runs COMMAND, in a mount namespace of the caller's

Each spelling of a name has a node of its own, as with libfuse: what is mounted on one spelling does not cover another.
The file `stale` opens under its own spelling only, and the others fail with an error that is not "no such file".
"""

import errno
import os
import stat
import struct
import subprocess
import sys
import threading
import ctypes

SPELLINGS = {}


class Node:
    def __init__(self, mode):
        self.mode, self.entries, self.data = mode, {}, b""


ROOT = Node(stat.S_IFDIR | 0o755)
NODES = {1: ROOT}


def number(node, parent, name):
    key = (id(node), parent, name)
    if key not in SPELLINGS:
        SPELLINGS[key] = len(NODES) + 1
        NODES[SPELLINGS[key]] = node
    return SPELLINGS[key]


def attributes(ino, node):
    links = 2 if stat.S_ISDIR(node.mode) else 1
    return struct.pack("<QQQQQQIIIIIIIIII", ino, len(node.data), 0, 0, 0, 0, 0, 0, 0, node.mode, links, OWNER, OWNER, 0, 4096, 0)


def entry(ino, node):
    return struct.pack("<QQQQII", ino, 0, 0, 0, 0, 0) + attributes(ino, node)


def folded(name):
    return name.decode(errors="surrogateescape").lower()


def find(parent, name):
    found = NODES[parent].entries.get(folded(name))
    if found is None:
        raise OSError(errno.ENOENT, "")
    if folded(name) == "stale" and name != found[0]:
        raise OSError(errno.EIO, "")
    return found[1]


def make(parent, name, mode):
    if folded(name) in NODES[parent].entries:
        raise OSError(errno.EEXIST, "")
    NODES[parent].entries[folded(name)] = (name, Node(mode))
    return find(parent, name)


def listing(ino, offset, size):
    names = [b".", b".."] + [name for name, _ in NODES[ino].entries.values()]
    out = b""
    for index, name in enumerate(names[offset:], offset + 1):
        record = struct.pack("<QQII", index, index, len(name), 0) + name
        record += b"\0" * (-len(record) % 8)
        if len(out) + len(record) > size:
            break
        out += record
    return out


def answer(opcode, ino, body):
    node = NODES.get(ino)
    if opcode == 1:  # LOOKUP
        name = body.rstrip(b"\0")
        found = find(ino, name)
        return entry(number(found, ino, name), found)
    if opcode == 3:  # GETATTR
        return struct.pack("<QII", 0, 0, 0) + attributes(ino, node)
    if opcode == 4:  # SETATTR
        valid, mode, size = struct.unpack_from("<I", body)[0], struct.unpack_from("<I", body, 68)[0], struct.unpack_from("<Q", body, 16)[0]
        if valid & 1:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        if valid & 8:
            node.data = node.data[:size].ljust(size, b"\0")
        return struct.pack("<QII", 0, 0, 0) + attributes(ino, node)
    if opcode == 9:  # MKDIR
        mode, name = struct.unpack_from("<I", body)[0], body[8:].rstrip(b"\0")
        made = make(ino, name, stat.S_IFDIR | stat.S_IMODE(mode))
        return entry(number(made, ino, name), made)
    if opcode in (10, 11):  # UNLINK, RMDIR
        found = find(ino, body.rstrip(b"\0"))
        if found.entries:
            raise OSError(errno.ENOTEMPTY, "")
        del NODES[ino].entries[folded(body.rstrip(b"\0"))]
        return b""
    if opcode in (14, 27):  # OPEN, OPENDIR
        return struct.pack("<QII", 0, 1, 0)
    if opcode == 15:  # READ
        offset, size = struct.unpack_from("<QI", body, 8)
        return node.data[offset : offset + size]
    if opcode == 16:  # WRITE
        offset, size = struct.unpack_from("<QI", body, 8)
        node.data = node.data[:offset].ljust(offset, b"\0") + body[40 : 40 + size] + node.data[offset + size :]
        return struct.pack("<II", size, 0)
    if opcode == 17:  # STATFS
        return struct.pack("<QQQQQIIII", 1000, 1000, 1000, 1000, 1000, 4096, 255, 4096, 0) + b"\0" * 24
    if opcode in (18, 20, 25, 29, 30):  # RELEASE, FSYNC, FLUSH, RELEASEDIR, FSYNCDIR
        return b""
    if opcode == 26:  # INIT
        return struct.pack("<IIIIHHIIHHI", 7, 31, 4096, 0, 8, 4, 65536, 1, 16, 0, 0) + b"\0" * 28
    if opcode == 28:  # READDIR
        offset, size = struct.unpack_from("<QI", body, 8)
        return listing(ino, offset, size)
    if opcode == 35:  # CREATE
        mode, name = struct.unpack_from("<II", body)[1], body[16:].rstrip(b"\0")
        made = make(ino, name, stat.S_IFREG | stat.S_IMODE(mode))
        return entry(number(made, ino, name), made) + struct.pack("<QII", 0, 1, 0)
    raise OSError(errno.ENOSYS, "")


def serve(device):
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError:
            return
        _, opcode, unique, ino = struct.unpack_from("<IIQQ", request)
        if opcode in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET
            continue
        try:
            error, out = 0, answer(opcode, ino, request[40:])
        except OSError as failed:
            error, out = -failed.errno, b""
        os.write(device, struct.pack("<IiQ", 16 + len(out), error, unique) + out)


directory, command = sys.argv[1], sys.argv[2:]
OWNER = os.stat(directory).st_uid
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"case_blind", directory.encode(), b"fuse", 0, options.encode()) != 0:
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
threading.Thread(target=serve, args=(device,), daemon=True).start()
code = subprocess.call(command, close_fds=True)
libc.umount2(directory.encode(), 2)
os._exit(code)
