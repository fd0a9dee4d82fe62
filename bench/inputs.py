"""The texts that bench/jobs.py counts: files of the Linux sources without a NUL byte, in the order of Debian's archive."""
import os
import shutil
import subprocess
import tarfile

import peers

OF = {"words": "quarter", "whole": "whole", "index": "files"}  # which input a row needs
QUARTER, EIGHTH = 4, 8


class Texts:
    """
    quarter: every fourth text in one file; whole: all in one; files: every eighth that is not empty, one each. Only what the
    rows need is made.
    """

    def __init__(self, archive, work, rows):
        self.quarter, self.whole, self.folder = (os.path.join(work, name) for name in ("quarter", "whole", "files"))
        self.files, self.rows = [], rows
        if set(rows) & set(OF):
            print(f"-- texts of {archive}", flush=True)
            os.mkdir(self.folder)
            self.read(archive)

    def read(self, archive):
        decompressed = subprocess.Popen(["xz", "-dc", "-T0", archive], stdout=subprocess.PIPE, start_new_session=True)
        try:
            with tarfile.open(fileobj=decompressed.stdout, mode="r|", bufsize=1 << 20) as source, \
                    open(self.quarter, "wb") as quarter, open(self.whole, "wb") as whole:
                number = 0
                for member in source:
                    if not member.isreg():
                        continue
                    text = source.extractfile(member).read()
                    if b"\0" not in text:
                        self.keep(number, text, quarter, whole)
                        number += 1
            decompressed.stdout.read()
            if decompressed.wait() != 0:
                raise SystemExit(f"{archive}: xz ended with status {decompressed.returncode}")
        finally:
            peers.end(decompressed)

    def keep(self, number, text, quarter, whole):
        if "words" in self.rows and number % QUARTER == 0:
            quarter.write(text)
        if "whole" in self.rows:
            whole.write(text)
        if "index" in self.rows and number % EIGHTH == 0 and text:
            self.files.append(os.path.join(self.folder, f"{number:06}"))
            with open(self.files[-1], "wb") as file:
                file.write(text)

    def done(self, row):
        """Its input makes room."""
        if row in ("words", "whole"):
            os.unlink(self.quarter if row == "words" else self.whole)
        elif row == "index":
            shutil.rmtree(self.folder)
