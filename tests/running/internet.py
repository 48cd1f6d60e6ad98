"""An internet of one machine, for one run of a program: `internet.py PAGE HOSTS HEARD PROGRAM…`.

Runs in a network and mount namespace that were made for it. The loopback interface there has an address
as the internet has them, names lead to it through the host's own file of names, and a web server
listens on it. The names that it was asked for are written to HEARD, one a line. At the same port datagrams
are answered with what they say.
"""

import http.server
import socket
import subprocess
import sys
import threading

ADDRESS, PORT = "11.22.33.44", 8080
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


for line in ["ip link set lo up", f"ip address add {ADDRESS}/32 dev lo"]:
    subprocess.run(line.split(), check=True)
with open(hosts, "w") as names:
    print("127.0.0.1 localhost", f"{ADDRESS} good.test evil.test new.test", sep="\n", file=names)
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
