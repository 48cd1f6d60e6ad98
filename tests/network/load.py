"""A client that opens many connections through a front: `load.py WAY HOST PORT SECRET`.

It says at each stage which one it has reached, and goes on when it is told to. PORT is the server's, which gives
every byte back and answers requests; HOST is where the front is: the server's own name, or the proxy's address.
"""

import base64
import socket
import sys
import threading

WAY, HOST, PORT, SECRET = sys.argv[1:]
NAME = "good.test"
BASIC = base64.b64encode(f"stockade:{SECRET}".encode()).decode()
AT_ONCE, LARGE = 1000, 64 * 1024


def receive(stream, length):
    heard = b""
    while len(heard) < length:
        more = stream.recv(length - len(heard))
        assert more, "the other side is gone"
        heard += more
    return heard


def head(stream):
    heard = b""
    while not heard.endswith(b"\r\n\r\n"):
        heard += receive(stream, 1)
    return heard.split(b"\r\n")[0].split()[1]


def reach():
    """A connection to the server."""
    if WAY == "supervised":
        return socket.create_connection((NAME, int(PORT)), timeout=60)
    address, port = HOST.split(":")
    stream = socket.create_connection((address, int(port)), timeout=60)
    if WAY == "connect":
        stream.sendall(f"CONNECT {NAME}:{PORT} HTTP/1.1\r\nProxy-Authorization: Basic {BASIC}\r\n\r\n".encode())
        assert head(stream) == b"200"
    if WAY == "socks5":
        stream.sendall(b"\5\1\2\1\10stockade" + bytes([len(SECRET)]) + SECRET.encode())
        assert receive(stream, 4) == b"\5\2\1\0"
        stream.sendall(b"\5\1\0\3" + bytes([len(NAME)]) + NAME.encode() + int(PORT).to_bytes(2, "big"))
        assert receive(stream, 10)[1] == 0
    if WAY == "http":
        # One that has not shown the secret is let go soon.
        say(stream, b"")
    return stream


def say(stream, said):
    """What is said comes back."""
    if WAY == "http":
        authorization = f"Proxy-Authorization: Basic {BASIC}\r\nContent-Length: {len(said)}\r\n\r\n"
        stream.sendall(f"POST http://{NAME}:{PORT}/ HTTP/1.1\r\n{authorization}".encode() + said)
        assert head(stream) == b"200"
    else:
        stream.sendall(said)
    assert receive(stream, len(said)) == said


def in_turn(count):
    done = []

    def some():
        for number in range(count // 4):
            stream = reach()
            say(stream, b"%08d" % number)
            stream.close()
            done.append(number)

    threads = [threading.Thread(target=some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == count, f"{len(done)} of {count}"


def stage(name):
    print(name, flush=True)
    sys.stdin.readline()


in_turn(200)
stage("warm")
streams = [reach() for _ in range(AT_ONCE)]
for number, stream in enumerate(streams):
    say(stream, (b"%08d" % number) * (LARGE // 8))
stage("at_once")
for stream in streams:
    stream.close()
in_turn(2000)
stage("two_thousand")
in_turn(8000)
stage("ten_thousand")
