"""An internet of one machine, for one run of a program: `internet.py PAGE HOSTS HEARD PROGRAM…`.

Runs in a network and mount namespace that were made for it. An address as the internet has them leads to
that machine without being one of its interfaces' own, names lead to it through the host's own file of names, and a
web server listens on it. Another such address is an interface's own. The names that it was asked for are written to HEARD, one a line. At the same port datagrams
are answered with what they say.
"""

import http.server
import socket
import subprocess
import sys
import threading

ADDRESS, OWN, PORT = "11.22.33.44", "11.22.34.1", 8080
page, hosts, heard, *program = sys.argv[1:]


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(heard, "a") as names:
            print(self.headers["Host"], file=names)
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_):
        pass


for line in [
    "ip link set lo up",
    f"ip route add local {ADDRESS}/32 dev lo",
    f"ip address add {OWN}/24 dev lo",
]:
    subprocess.run(line.split(), check=True)
with open(hosts, "w") as names:
    lines = [
        "127.0.0.1 localhost",
        f"{ADDRESS} good.test evil.test new.test",
        f"{OWN} own.test",
        "11.22.34.9 neighbour.test",
    ]
    print(*lines, sep="\n", file=names)
subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
server = http.server.ThreadingHTTPServer((ADDRESS, PORT), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((ADDRESS, PORT))


def echo():
    while True:
        said, sender = datagrams.recvfrom(65536)
        datagrams.sendto(said, sender)


threading.Thread(target=echo, daemon=True).start()
sys.exit(subprocess.run(program).returncode)
