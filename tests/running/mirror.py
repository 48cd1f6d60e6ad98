"""Package mirrors in a network of their own, for one run of a program: `mirror.py DIRECTORY PROGRAM…`.

Runs in a network and mount namespace that were made for it. `pypi.test` leads to an address as the internet has them,
`mirror.test` to one of a private network and `meta.test` to a cloud's metadata service; a package registry listens at
each, at port 443. A stand-in for `getent` answers for these names, and writes each that it is asked for to
DIRECTORY/looked-up.
"""

import http.server
import os
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
import registry  # noqa: E402

NAMES = {"pypi.test": "11.22.33.44", "mirror.test": "10.1.2.3", "meta.test": "169.254.169.254"}
directory, *program = sys.argv[1:]

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
for address in NAMES.values():
    # None is an interface's own, so that they count as they would on another machine.
    subprocess.run(["ip", "route", "add", "local", f"{address}/32", "dev", "lo"], check=True)
stand_in, log = os.path.join(directory, "getent"), os.path.join(directory, "looked-up")
answers = "".join(f"{name}) echo {address} STREAM;;\n" for name, address in NAMES.items())
with open(stand_in, "w") as script:
    script.write(f'#!/bin/sh\nfor name; do :; done\necho "$name" >> {log}\ncase "$name" in\n{answers}*) exit 2;;\nesac\n')
os.chmod(stand_in, 0o755)
with open(log, "w"):
    pass
os.chmod(log, 0o666)
subprocess.run(["mount", "--bind", stand_in, os.path.realpath("/usr/bin/getent")], check=True)
for name, address in NAMES.items():
    server = http.server.ThreadingHTTPServer((address, 443), registry.Registry)
    server.pages = registry.pages(f"http://{name}:443")
    threading.Thread(target=server.serve_forever, daemon=True).start()
sys.exit(subprocess.run(program).returncode)
