#!/usr/bin/env python3
"""A stub of WebHDFS for tests, written from Apache Hadoop's page "WebHDFS REST API". It is no HDFS:
files are in memory, one process is the name node and two data nodes, blocks have 1 MiB.

Prints "port N" and serves on 127.0.0.1 until its standard input ends. Faults are asked for by
paths: see FAULTS. Requests are counted; GET /counts tells them as JSON.
"""
import json
import threading
from urllib.parse import parse_qs, quote, unquote, urlsplit

from stub import StubHandler, make_server, run

BLOCK, PAGE = 1 << 20, 100
FAULTS = {  # the first path component: what goes wrong
    "loop",       # the name node sends to itself, without end
    "elsewhere",  # the name node sends to ftp://
    "short",      # a data node gives half of what was asked for
    "busy",       # the name node answers 503 the first two times
    "denied",     # AccessControlException
    "changing",   # every look at a file sees another time
    "lost",       # the answer to a RENAME is lost, and to an APPEND
    "norename",   # renameoptions is not known
    "garbage",    # what is no JSON
    "bare",       # a refusal that is no JSON
    "dead",       # the first data node named is away
}
files, lock, counts = {}, threading.Lock(), {}
clock = [1_700_000_000_000]


class File:
    number = 1000

    def __init__(self, data):
        File.number += 1
        clock[0] += 1
        self.data, self.number, self.time = data, File.number, clock[0]


def parent(path):
    return path.rsplit("/", 1)[0] or "/"


def is_folder(path):
    return path == "/" or any(name.startswith(path.rstrip("/") + "/") for name in files)


class Handler(StubHandler):
    def answer(self, status, body=b"", headers=()):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, name, message):
        self.answer(status, {"RemoteException": {
            "exception": name, "javaClassName": f"org.apache.hadoop.{name}",
            "message": message + "\n\tat org.apache.hadoop.Stack.trace(Stack.java:1)"}})

    def status_of(self, path, suffix):
        file = files.get(path)
        if file is None:
            return {"accessTime": 0, "blockSize": 0, "group": "g", "length": 0, "fileId": 16386,
                    "modificationTime": 1, "owner": "o", "pathSuffix": suffix, "permission": "755",
                    "replication": 0, "type": "DIRECTORY"}
        if path.startswith("/changing/"):
            clock[0] += 1
            file.time = clock[0]
        return {"accessTime": 0, "blockSize": BLOCK, "group": "g", "length": len(file.data),
                "fileId": file.number, "modificationTime": file.time, "owner": "o",
                "pathSuffix": suffix, "permission": "644", "replication": 1,
                "type": "SYMLINK" if self.is_link(path, suffix) else "FILE"}

    def is_link(self, path, suffix):
        """A name that begins with "link" is listed as one and followed when it is looked at, one
        with "loose" never."""
        name = path.split("/")[-1]
        return name.startswith("loose") or (suffix != "" and name.startswith("link"))

    def redirect(self, path, query):
        fault = path.split("/")[1]
        if fault == "elsewhere":
            return self.answer(307, headers=[("Location", "ftp://127.0.0.1/x")])
        if fault == "loop":
            return self.answer(307, headers=[("Location", f"http://{self.headers['Host']}{self.path}")])
        host = f"127.0.0.1:{self.server.server_port}"
        dead = f"127.0.0.1:{self.server.dead_port}"
        if fault == "dead" and query.get("excludedatanodes") != dead:
            host = dead
        where = f"http://{host}/data{quote(path)}?" + "&".join(f"{k}={v}" for k, v in query.items())
        self.answer(307, headers=[("Location", where)])

    def serve(self):
        parts = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        if parts.path == "/counts":
            return self.answer(200, counts)
        with lock:
            if parts.path.startswith("/data/"):
                return self.data_node(unquote(parts.path[5:]), query, body)
            if not parts.path.startswith("/webhdfs/v1/"):
                return self.answer(404, b"<html>no such page</html>")
            path = unquote(parts.path[len("/webhdfs/v1"):])
            path = path.rstrip("/") or "/"
            return self.name_node(path, query, body)

    def name_node(self, path, query, body):
        operation, fault = query.get("op", ""), path.split("/")[1]
        key = f"{self.command} {operation}"
        counts[key] = counts.get(key, 0) + 1
        if body and operation in ("CREATE", "APPEND"):
            return self.refuse(400, "IOException", "data came to the name node")
        if fault == "busy" and counts.setdefault(path, 0) < 2:
            counts[path] += 1
            return self.answer(503, b"", [("Retry-After", "0")])
        if fault == "denied" or query.get("user.name") == "nobody":
            return self.refuse(403, "AccessControlException", "Permission denied: user=" +
                               query.get("user.name", "dr.who"))
        if fault == "garbage":
            return self.answer(200, b"{\"FileStatus\": [" * 40)
        if fault == "bare":
            return self.answer(500 if "5" in path else 403, b"<html>proxy</html>")
        handler = getattr(self, f"{self.command}_{operation}".lower(), None)
        if handler is None:
            return self.refuse(400, "IllegalArgumentException", f"Invalid value for op: {operation}")
        handler(path, query)

    def get_getfilestatus(self, path, query):
        if path not in files and not is_folder(path):
            return self.refuse(404, "FileNotFoundException", f"File does not exist: {path}")
        self.answer(200, {"FileStatus": self.status_of(path, "")})

    def get_liststatus_batch(self, path, query):
        if not is_folder(path):
            return self.refuse(404, "FileNotFoundException", f"File {path} does not exist.")
        base = path.rstrip("/") + "/"
        names = sorted({name[len(base):].split("/")[0] for name in files if name.startswith(base)},
                       key=str.encode)
        names = [name for name in names if name > query.get("startAfter", "")]
        page = [self.status_of(base + name, name) for name in names[:PAGE]]
        self.answer(200, {"DirectoryListing": {
            "partialListing": {"FileStatuses": {"FileStatus": page}},
            "remainingEntries": max(0, len(names) - PAGE)}})

    def get_open(self, path, query):
        if path not in files:
            return self.refuse(404, "FileNotFoundException", f"File does not exist: {path}")
        if int(query.get("offset", 0)) > len(files[path].data):
            return self.refuse(403, "IOException", "Offset=" + query["offset"] + " out of the range")
        self.redirect(path, query)

    def get_getfileblocklocations(self, path, query):
        if path not in files:
            return self.refuse(404, "FileNotFoundException", f"File does not exist: {path}")
        data, at = files[path].data, int(query.get("offset", 0))
        first = path.split("/")[1]  # "on-HOST": all of it is there
        where = [first[3:]] if first.startswith("on-") else None
        end = min(len(data), at + int(query.get("length", len(data))))
        blocks = [{"cachedHosts": [], "corrupt": False, "hosts": where or [f"node{i % 3}", f"node{(i + 1) % 3}"],
                   "length": min(BLOCK, len(data) - i * BLOCK), "names": [f"10.0.0.{i % 3}:9866"],
                   "offset": i * BLOCK, "storageTypes": ["DISK"], "topologyPaths": ["/r/x"]}
                  for i in range(at // BLOCK, (end + BLOCK - 1) // BLOCK)]
        self.answer(200, {"BlockLocations": {"BlockLocation": blocks}})

    def put_create(self, path, query):
        if path in files and query.get("overwrite") != "true":
            return self.refuse(403, "FileAlreadyExistsException", f"{path} already exists")
        self.redirect(path, query)

    def post_append(self, path, query):
        if path not in files:
            return self.refuse(404, "FileNotFoundException", f"Failed to append to {path}")
        self.redirect(path, query)

    def put_rename(self, path, query):
        to = query["destination"]
        overwrites = query.get("renameoptions") == "OVERWRITE" and not to.startswith("/norename/")
        if path not in files:
            return self.answer(200, {"boolean": False}) if not overwrites else \
                self.refuse(404, "FileNotFoundException", "rename source is not found.")
        if to in files and not overwrites:
            return self.answer(200, {"boolean": False})
        files[to] = files.pop(path)
        if to.startswith("/lost/") and counts.setdefault("lost " + to, 0) == 0:
            counts["lost " + to] = 1
            self.close_connection = True
            return None
        return self.answer(200, b"" if overwrites else {"boolean": True})

    def delete_delete(self, path, query):
        self.answer(200, {"boolean": files.pop(path, None) is not None})

    def data_node(self, path, query, body):
        operation, fault = query["op"], path.split("/")[1]
        key = f"data {operation}"
        counts[key] = counts.get(key, 0) + 1
        if path not in files and operation != "CREATE":
            return self.refuse(404, "FileNotFoundException", f"File does not exist: {path}")
        if operation == "OPEN":
            at, size = int(query["offset"]), int(query["length"])
            data = files[path].data[at:at + size]
            return self.answer(200, data[:len(data) // 2] if fault == "short" else data)
        if operation == "CREATE":
            files[path] = File(body)
            return self.answer(201, headers=[("Location", f"hdfs://127.0.0.1:8020{path}")])
        files[path].data += body
        if fault == "lost":
            self.close_connection = True
            return None
        return self.answer(200)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve


def main():
    server, unused = make_server(Handler), make_server(Handler)
    server.dead_port = unused.server_port
    unused.server_close()
    run(server)


main()
