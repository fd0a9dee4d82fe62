#!/usr/bin/env python3
"""A server that answers S3's requests as tests want them: well with a check of every signature, or
badly. It stands beside the real one (s3rver), which neither obeys If-None-Match nor misbehaves.

Prints "port N" and serves on 127.0.0.1 until its standard input ends. The bucket says how it
behaves: see behave(). GET /counts tells the requests as JSON.
"""
import hashlib
import hmac
import json
import socket
import threading
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from stub import StubHandler, make_server, run

KEYS = {"AKIDEXAMPLE": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
objects, uploads, counts, lock = {}, {}, {}, threading.Lock()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def signature(secret, scope, date, canonical):
    """The signature of a canonical request: AWS, "Create a signed AWS API request", steps 2 to 4."""
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, sha256(canonical.encode())])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def prove_signature():
    """AWS's published vectors: get-vanilla of the SigV4 test suite, and "GET Object" of "Examples:
    Signature calculations" of the S3 reference. Who computes these right may judge others."""
    empty = sha256(b"")
    vanilla = f"GET\n/\n\nhost:example.amazonaws.com\nx-amz-date:20150830T123600Z\n\nhost;x-amz-date\n{empty}"
    assert signature(KEYS["AKIDEXAMPLE"], "20150830/us-east-1/service/aws4_request", "20150830T123600Z",
                     vanilla) == "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    get = ("GET\n/test.txt\n\nhost:examplebucket.s3.amazonaws.com\nrange:bytes=0-9\n"
           f"x-amz-content-sha256:{empty}\nx-amz-date:20130524T000000Z\n\n"
           f"host;range;x-amz-content-sha256;x-amz-date\n{empty}")
    assert signature("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "20130524/us-east-1/s3/aws4_request",
                     "20130524T000000Z", get) == \
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"


class Handler(StubHandler):
    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code, message, **headers):
        self.answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message>"
                            "</Error>".encode(), **headers)

    def raw(self, text):
        self.wfile.write(text if isinstance(text, bytes) else text.encode())
        self.close_connection = True

    def is_signed(self, parts, body):
        """Recompute what the Authorization header claims."""
        words = dict(word.strip().split("=", 1) for word in
                     self.headers["Authorization"].split(" ", 1)[1].split(","))
        key, scope = words["Credential"].split("/", 1)
        names = words["SignedHeaders"].split(";")
        if "host" not in names or any(name.lower().startswith("x-amz-") and name.lower() not in names
                                      for name in self.headers):
            return False
        query = sorted((quote(k, safe="-._~"), quote(v, safe="-._~"))
                       for k, v in parse_qsl(parts.query, keep_blank_values=True))
        payload = self.headers["x-amz-content-sha256"]
        canonical = "\n".join([
            self.command, quote(unquote(parts.path), safe="/-._~"), "&".join(f"{k}={v}" for k, v in query),
            "".join(f"{name}:{' '.join(self.headers[name].split())}\n" for name in names),
            ";".join(names), payload])
        want = signature(KEYS.get(key, ""), scope, self.headers["x-amz-date"], canonical)
        return payload == sha256(body) and hmac.compare_digest(want, words["Signature"])

    def serve(self):
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if parts.path == "/counts":
            return self.answer(200, json.dumps(counts).encode())
        host = self.headers["Host"].split(".")[0]
        bucket, _, key = ("/hosted" + parts.path if host == "hosted" else parts.path)[1:].partition("/")
        if self.command == "PUT" and key.endswith("-slash"):
            key = key[:-len("-slash")] + "/"  # which other programs put
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        with lock:
            count = f"{bucket} {self.command} {','.join(sorted(query))}".strip()
            counts[count] = counts.get(count, 0) + 1
        if bucket == "drip" and self.command == "GET":
            self.raw("HTTP/1.1 206 Partial Content\r\nContent-Length: 1000\r\nContent-Range: bytes 0-999/1000\r\n\r\n")
            while not self.server.hold.wait(0.02):  # until the client has had enough
                self.wfile.write(b"x")
                self.wfile.flush()
        is_behind = self.command == "GET" and "bytes=0-" not in (self.headers["Range"] or "bytes=0-")
        if bucket == "silent" or (bucket == "stuck" and is_behind):  # stuck: gives the first range alone
            self.server.hold.wait(20)
            self.close_connection = True
            return None
        if bucket == "together" and self.command == "GET" and query.get("prefix", "").startswith("x"):
            try:
                self.server.together.wait(20)  # until eight ask
            except threading.BrokenBarrierError:
                self.server.together.reset()
                return self.refuse(403, "AccessDenied", "too few at once")
        if bucket.startswith("gated") and self.command == "PUT" and (
                self.is_gated(unquote(key)) or query.get("partNumber") == "2"):
            while f"{bucket}/go" not in objects and not self.server.hold.wait(0.01):
                pass  # whoever sent it may be dead when it is done
        with lock:
            if "Authorization" not in self.headers:
                return self.refuse(403, "AccessDenied", "no signature")
            if not self.is_signed(parts, body):
                return self.refuse(403, "SignatureDoesNotMatch", "the signature is another")
            if bucket == "session" and self.headers["x-amz-security-token"] != "TOKEN/with+signs==":
                return self.refuse(403, "InvalidToken", "no session")
            behaviour = getattr(self, "as_" + bucket.replace("-", "_"), None)
            if behaviour is not None and behaviour(unquote(key), query, counts[count]):
                return None
            return self.be_good(f"{bucket}/{unquote(key)}", query, body)

    @staticmethod
    def is_gated(key):
        """Of an output's files all but the first two, and second parts, wait for the object "go"."""
        name = key.rsplit("/", 1)[-1]
        return name.startswith("part-") and int(name[5:]) > 1

    # ---- a good server, which knows If-None-Match ----

    def be_good(self, name, query, body):
        if "list-type" in query:
            return self.list(name, query)
        if self.command in ("GET", "HEAD"):
            return self.get(name)
        if self.command == "DELETE":
            uploads.pop(query.get("uploadId"), None)
            if not query:
                objects.pop(name, None)
            return self.answer(204)
        if "uploads" in query:
            number = f"up/{len(uploads)}=&1"
            uploads[number] = ({}, self.headers["x-amz-meta-gyre-token"])
            return self.answer(200, "<InitiateMultipartUploadResult><UploadId>"
                                    f"{number.replace('&', '&amp;')}</UploadId>"
                                    "</InitiateMultipartUploadResult>".encode())
        if "partNumber" in query:
            uploads[query["uploadId"]][0][int(query["partNumber"])] = body
            return self.answer(200, ETag=f'"{sha256(body)[:32]}"')
        if ".gyre-probe-" not in name:
            counts["put " + name] = counts.get("put " + name, 0) + 1
        if self.headers["If-None-Match"] == "*" and name in objects:
            return self.refuse(412, "PreconditionFailed", "At least one of the pre-conditions did not hold")
        token = self.headers["x-amz-meta-gyre-token"]
        if "uploadId" in query:
            parts, token = uploads.pop(query["uploadId"], (None, None))
            if parts is None:
                return self.refuse(404, "NoSuchUpload", "The specified upload does not exist")
            body = b"".join(parts[number] for number in sorted(parts))
        objects[name] = (body, sha256(body)[:32], token)
        if "lost" in name and counts.setdefault("lost " + name, 0) == 0:
            counts["lost " + name] = 1
            return self.raw(b"")
        return self.answer(200, b"<CompleteMultipartUploadResult/>" if query else b"",
                           ETag=f'"{objects[name][1]}"')

    def get(self, name):
        if name not in objects:
            return self.refuse(404, "NoSuchKey", "The specified key does not exist.")
        data, etag, token = objects[name]
        headers = {"ETag": f'"{etag}"', "x_amz_meta_gyre_token": token or "",
                   "Last_Modified": "Mon, 02 Feb 2026 12:00:00 GMT"}
        if self.headers["If-Match"] not in (None, f'"{etag}"'):
            return self.refuse(412, "PreconditionFailed", "If-Match")
        if self.command == "HEAD" or self.headers["Range"] is None:
            return self.answer(200, data, **headers)
        first, last = (int(word) for word in self.headers["Range"][6:].split("-"))
        if first >= len(data):
            return self.refuse(416, "InvalidRange", "The requested range is not satisfiable")
        part = data[first:last + 1]
        headers["Content_Range"] = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
        return self.answer(206, part, **headers)

    def list(self, name, query):
        prefix, slash = name + query["prefix"], query["delimiter"]
        found = {}
        for key, (data, etag, _) in objects.items():
            if key.startswith(prefix):
                rest = key[len(prefix):]
                cut = rest.find(slash)
                short = key[len(name):] if cut < 0 else key[len(name):len(prefix) + cut + 1]
                found[short] = None if cut >= 0 else (len(data), etag)
        after = query.get("continuation-token", "")
        names = [key for key in sorted(found, key=str.encode) if key > after]
        page, most = [], min(int(query["max-keys"]), 7)
        for key in names[:most]:
            encoded = quote(key, safe="/")
            page.append(f"<CommonPrefixes><Prefix>{encoded}</Prefix></CommonPrefixes>" if found[key] is None else
                        f"<Contents><Key>{encoded}</Key><Size>{found[key][0]}</Size>"
                        f"<ETag>&quot;{found[key][1]}&quot;</ETag>"
                        "<LastModified>2026-02-02T12:00:00.000Z</LastModified></Contents>")
        more = len(names) > most
        last = names[most - 1].replace("&", "&amp;").replace("<", "&lt;") if more else ""
        self.answer(200, ("<?xml version='1.0' encoding='UTF-8'?><ListBucketResult "
                          "xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><EncodingType>url</EncodingType>"
                          f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>" +
                          (f"<NextContinuationToken>{last}</NextContinuationToken>" if more else "") +
                          "".join(page) + "</ListBucketResult>").encode())

    # ---- bad ones; True: the request was dealt with. `count`: of such requests, from 1 ----

    def as_busy(self, key, query, count):
        if count <= 2:
            self.refuse(503, "SlowDown", "Please reduce your request rate.", Retry_After="0")
        return count <= 2

    def as_ill(self, key, query, count):
        self.refuse(500, "InternalError", "We encountered an internal error.")
        return True

    def as_crowd(self, key, query, count):
        """A long way off: how many objects it was asked for at once is counted under "most DIR". GET gives
        no "gone"."""
        if self.command != "GET" or key == "":
            return False
        self.server.crowd += 1
        most = "most " + key.rpartition("/")[0]
        counts[most] = max(counts.get(most, 0), self.server.crowd)
        lock.release()
        self.server.hold.wait(0.03)
        lock.acquire()
        self.server.crowd -= 1
        if key.endswith("/gone"):
            self.refuse(404, "NoSuchKey", "The specified key does not exist.")
        return key.endswith("/gone")

    def as_cut(self, key, query, count):
        """Breaks off in the middle of each answer that has a body, but gives what it promised at last."""
        if self.command != "GET" or key == "":
            return False
        data, etag, _ = objects["cut/" + key]
        first, last = (int(word) for word in self.headers["Range"][6:].split("-"))
        last = min(last, len(data) - 1)
        self.raw(f"HTTP/1.1 206 Partial Content\r\nETag: \"{etag}\"\r\nContent-Length: {last - first + 1}\r\n"
                 f"Content-Range: bytes {first}-{last}/{len(data)}\r\n\r\n".encode() +
                 data[first:first + (last - first + 1 + 1) // 2])
        return True

    def as_changing(self, key, query, count):
        """Another object behind each answer; If-Match is not obeyed."""
        if self.command != "GET" or key == "":
            return False
        first, last = (int(word) for word in self.headers["Range"][6:].split("-"))
        data = objects["changing/" + key][0]
        last = min(last, len(data) - 1)
        self.raw(f"HTTP/1.1 206 Partial Content\r\nETag: \"v{count}\"\r\nContent-Length: {last - first + 1}\r\n"
                 f"Content-Range: bytes {first}-{last}/{len(data)}\r\n\r\n".encode() +
                 data[first:first + (last - first + 1) // 2])
        return True

    def as_bad(self, key, query, count):
        """The key, or for a list the prefix, says what is wrong."""
        kind = (key or query.get("prefix", "")).strip("/")
        head, ok = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 206 Partial Content\r\n"
        endless = b"<ListBucketResult><Contents><Key>" + b"k" * (10 << 20) + b"</Key></Contents></ListBucketResult>"
        bomb = ("<?xml version='1.0'?><!DOCTYPE l [<!ENTITY a 'aaaaaaaaaa'>" +
                "".join(f"<!ENTITY {b} '&{a};&{a};&{a};&{a};&{a};&{a};&{a};&{a};'>"
                        for a, b in zip("abcdefgh", "bcdefghi")) +
                "]><ListBucketResult><Contents><Key>&i;</Key></Contents></ListBucketResult>")
        page = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
        texts = {
            "huge": ok + "Content-Length: 99999999999999999999999\r\n\r\nabc",
            "large": ok + f"Content-Range: bytes 0-{2**63 - 2}/{2**63 - 1}\r\nContent-Length: {2**63 - 1}\r\n\r\nabc",
            "negative": ok + "Content-Length: -5\r\n\r\nabc",
            "none": ok + "Content-Range: bytes 0-9/100\r\n\r\nabc",
            "elsewhere": ok + "Content-Range: bytes 7-9/100\r\nContent-Length: 3\r\n\r\nabc",
            "overfull": ok + "Content-Range: bytes 0-9/10\r\nContent-Length: 4096\r\n\r\n" + "x" * 4096,
            "garbage": "\x00\x01\x02 what is this\r\n\r\n",
            "headers": head + "X-Long: " + "x" * 60000 + "\r\n" + "".join(
                f"X-{i}: {'y' * 60000}\r\n" for i in range(8)) + "\r\n",
            "sizeless": head + "ETag: \"a\"\r\n\r\n",
        }
        bodies = {
            "noxml": b"this is no XML", "cutxml": b"<ListBucketResult><Contents><Key>a",
            "other": b"<html><body>hello</body></html>", "longname": endless, "bomb": bomb.encode(),
            "deep": b"<a>" * 100000, "empty": page.encode() + b"</ListBucketResult>",
            "same": page.encode() + b"<Contents><Key>same/x</Key><Size>1</Size></Contents></ListBucketResult>",
            "outside": b"<ListBucketResult><Contents><Key>other</Key></Contents></ListBucketResult>",
            "keyless": b"<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
            "size": b"<ListBucketResult><Contents><Key>size/x</Key><Size>-1</Size></Contents></ListBucketResult>",
            "tokenless": b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            "nul": b"<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>nul/%00x</Key></Contents>"
                   b"</ListBucketResult>",
        }
        if kind in texts:
            self.raw(texts[kind].encode("latin1"))
        elif kind in bodies:
            self.answer(200, bodies[kind])
        else:
            return False
        return True

    def as_region(self, key, query, count):
        self.refuse(301, "PermanentRedirect", "another endpoint", x_amz_bucket_region="eu-north-1",
                    Location="http://127.0.0.1:1/")
        return True

    def as_old(self, key, query, count):
        """Knows no If-None-Match: refuses it."""
        if self.headers["If-None-Match"] is not None:
            self.refuse(501, "NotImplemented", "A header you provided implies functionality that is not implemented")
            return True
        return False

    def as_noparts(self, key, query, count):
        """Takes two parts of three."""
        if query.get("partNumber") == "2":
            self.refuse(403, "QuotaExceeded", "no room")
            return True
        return False

    def as_full(self, key, query, count):
        """Has room for two objects of an output, until full/go is there."""
        if self.command == "PUT" and self.is_gated(key) and "full/go" not in objects:
            self.refuse(507, "InsufficientStorage", "no room")
            return True
        return False

    def as_readonly(self, key, query, count):
        """Lets nobody write an output but where it tries."""
        if self.command == "PUT" and ".gyre-probe-" not in key:
            self.refuse(403, "AccessDenied", "reading alone")
            return True
        return False

    def as_late(self, key, query, count):
        """Fails behind a 200, twice."""
        if self.command == "POST" and "uploadId" in query and count <= 2:
            self.answer(200, b"<Error><Code>InternalError</Code><Message>once more</Message></Error>")
            return True
        return False

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve


def main():
    prove_signature()
    socket.setdefaulttimeout(30)
    server = make_server(Handler)
    server.hold, server.crowd = threading.Event(), 0
    server.together = threading.Barrier(8)
    run(server)


main()
