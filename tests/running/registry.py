"""A package registry on loopback that npm, pip, cargo and go take packages from: prints its port, then serves."""

import base64
import hashlib
import http.server
import io
import json
import tarfile
import zipfile


def tarball(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


def zipped(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


def pages(base):
    found = {}
    package = {"name": "leaf", "version": "1.0.0", "main": "index.js"}
    found["/leaf/-/leaf-1.0.0.tgz"] = tarball(
        {"package/package.json": json.dumps(package), "package/index.js": "module.exports = 'leaf'\n"}
    )
    version = {**package, "dist": {"tarball": f"{base}/leaf/-/leaf-1.0.0.tgz"}}
    found["/leaf"] = json.dumps({"name": "leaf", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode()

    wheel = {
        "leaf.py": "NAME = 'leaf'\n",
        "leaf-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: leaf\nVersion: 1.0\n",
        "leaf-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in wheel.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        record += f"{name},sha256={digest},{len(text)}\n"
    wheel["leaf-1.0.dist-info/RECORD"] = record + "leaf-1.0.dist-info/RECORD,,\n"
    found["/files/leaf-1.0-py3-none-any.whl"] = zipped(wheel)
    link = '<a href="/files/leaf-1.0-py3-none-any.whl">leaf-1.0-py3-none-any.whl</a>'
    found["/simple/leaf/"] = f"<!DOCTYPE html><html><body>{link}</body></html>".encode()

    manifest = '[package]\nname = "leaf"\nversion = "1.0.0"\nedition = "2021"\n'
    crate = tarball({"leaf-1.0.0/Cargo.toml": manifest, "leaf-1.0.0/src/lib.rs": "pub const NAME: &str = \"leaf\";\n"})
    found["/dl/leaf/1.0.0/download"] = crate
    found["/index/config.json"] = json.dumps({"dl": f"{base}/dl"}).encode()
    checksum = hashlib.sha256(crate).hexdigest()
    entry = {"name": "leaf", "vers": "1.0.0", "deps": [], "cksum": checksum, "features": {}, "yanked": False}
    found["/index/le/af/leaf"] = (json.dumps(entry) + "\n").encode()

    module = "example.test/leaf"
    found[f"/{module}/@v/list"] = b"v1.0.0\n"
    found[f"/{module}/@v/v1.0.0.info"] = json.dumps({"Version": "v1.0.0", "Time": "2024-01-01T00:00:00Z"}).encode()
    found[f"/{module}/@latest"] = found[f"/{module}/@v/v1.0.0.info"]
    found[f"/{module}/@v/v1.0.0.mod"] = f"module {module}\n\ngo 1.19\n".encode()
    found[f"/{module}/@v/v1.0.0.zip"] = zipped(
        {f"{module}@v1.0.0/go.mod": f"module {module}\n\ngo 1.19\n", f"{module}@v1.0.0/leaf.go": 'package leaf\n\nconst Name = "leaf"\n'}
    )
    return found


class Registry(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        page = self.server.pages.get(self.path.split("?")[0])
        self.send_response(200 if page is not None else 404)
        self.send_header("Content-Length", str(len(page or b"")))
        if self.path.startswith("/simple/"):
            self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    server.pages = pages(f"http://127.0.0.1:{server.server_port}")
    print(server.server_port, flush=True)
    server.serve_forever()
