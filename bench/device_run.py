#!/usr/bin/env python3
"""On a machine with a device: run the tests, trainings, sanitizers and benchmarks of a folder that scripts/device built,
and write a report.

Usage: run.sh [--report FILE] [--seconds N] [--only SECTION,...] [--stand-in]
Sections: tests, trainings, sanitizers, benches; without --only all of them. What --seconds (default 540) leaves no time
for is listed as left out. The report is written anew after each piece, so that it is there when this is killed.
--stand-in takes the test library in place of a device, with small sizes (it shows that the folder works, not what a
device does).

Exit status: 0 all passed and no bar was missed; 1 something failed, was left out for lack of time, or missed its bar; 2 usage;
3 there is no device, or a library is missing (which and where it was looked for is printed).
"""
import argparse
import concurrent.futures
import ctypes
import datetime
import glob
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SECTIONS = ["tests", "benches", "trainings", "sanitizers"]
# Libraries that the driver's and PyTorch's folders must find in the machine's own version.
SYSTEM_FIRST = ["libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1"]
TESTS = [("cuda_device_test", "tests_cuda"), ("cuda_product_test", "tests_cuda"), ("cuda_executor_test", "tests_cuda"),
         ("cuda_training_test", "tests_cuda"), ("cuda_rows_test", "tests_cuda"), ("cuda_random_training_test", "tests_cuda"),
         ("cuda_trained_test", "tests_cuda"), ("cuda_session_test", "tests_cuda"), ("cuda_kernels_test", "tests_cuda"),
         ("ops_text_test", "ops_cuda_text_tests"),
         ("ops_program_test", "ops_cuda_text_tests"), ("ops_unfold_test", "ops_cuda_text_tests")]
SANITIZED = [("memcheck", "cuda_device_test"), ("memcheck", "cuda_executor_test"), ("memcheck", "ops_text_test"),
             ("racecheck", "ops_text_test"), ("synccheck", "ops_text_test"), ("initcheck", "ops_text_test")]
GPT = {"layers": 12, "width": 768, "heads": 12, "context": 1024}
GPT_BATCH = 8
BARS = {"product_bf16_8192": 0.9, "gpt_step": 1.1, "copy_inside": 0.85, "copy_to_device_staged": 0.85,
        "copy_from_device_staged": 0.85, "kernel_square": 0.85}
# What a bar is a share of, where that is another figure of the same run: the bandwidth that was measured.
MEASURED = {"copy_to_device_staged": "copy_to_device_pinned", "copy_from_device_staged": "copy_from_device_pinned",
            "kernel_square": "copy_inside"}


class Missing(Exception):
    """No device, or no library."""


class Failed(Exception):
    """A piece of the run gave something else than expected."""


# ---- what there is ----

def library_folders():
    """Folders where a machine may have libraries of CUDA, as they are preferred."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    sites = [path for path in sys.path + [sysconfig.get_paths()["purelib"]] if path.endswith("-packages")]
    for site in sites:
        folders += sorted(glob.glob(os.path.join(site, "nvidia", "*", "lib")), reverse=True)
    for root in ["/usr/local/cuda"] + sorted(glob.glob("/usr/local/cuda-*"), reverse=True) + ["/opt/cuda"]:
        folders += [os.path.join(root, "lib64"), os.path.join(root, "targets/x86_64-linux/lib")]
    folders += ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu",
                "/usr/lib64", "/usr/lib/wsl/lib"]
    return [folder for folder in dict.fromkeys(folders) if folder and os.path.isdir(folder)]


def find_libraries():
    """GYRE_CUDA_LIBRARIES: the first folder of each library. Missing says which there is none of."""
    folders, chosen, missing = library_folders(), [], []
    for what, patterns, package in [
            ("the CUDA driver", ["libcuda.so.1"], "NVIDIA's driver"),
            ("NVRTC", ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"], "cuda-nvrtc, or pip's nvidia-cuda-nvrtc"),
            ("cuBLASLt", ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"],
             "libcublas, or pip's nvidia-cublas")]:
        found = [folder for folder in folders if any(os.path.exists(os.path.join(folder, p)) for p in patterns)]
        if found:
            chosen += found
        else:
            missing.append(f"{what} ({patterns[0]}): install {package}")
    if missing:
        raise Missing("missing: " + "; ".join(missing) + "\nlooked for in: " + " ".join(folders))
    return ":".join(dict.fromkeys(chosen))


def find_tool(name):
    found = shutil.which(name)
    places = sorted(glob.glob(f"/usr/local/cuda*/bin/{name}") + glob.glob(f"/usr/local/cuda*/compute-sanitizer/{name}"))
    return found or (places[-1] if places else None)


class Machine:
    """Where things are, and how programs of the folder are run."""

    def __init__(self, options):
        self.options = options
        self.work = tempfile.mkdtemp(prefix="gyre-device-")
        self.ends = time.monotonic() + options.seconds
        libraries = os.path.join(self.work, "lib")
        with tarfile.open(os.path.join(HERE, "lib.tar.gz")) as archive:
            archive.extractall(libraries)
        for name in SYSTEM_FIRST:
            if os.path.exists(os.path.join(libraries, name)) and is_loadable(name):
                os.remove(os.path.join(libraries, name))
        for name, program in TESTS:
            os.symlink(os.path.join(HERE, "bin", program), os.path.join(self.work, name))
        if options.stand_in:
            cuda = os.path.join(HERE, "standin")
        else:
            cuda = os.environ.get("GYRE_CUDA_LIBRARIES") or find_libraries()
        self.environment = {
            **os.environ, "GYRE_CUDA_LIBRARIES": cuda, "GYRE_TEST_DEVICE": "1", "GYRE_TUNE": "none",
            "GYRE_DATA": os.path.join(HERE, "data"), "GYRE_BIN": os.path.join(HERE, "bin", "gyre"),
            "XDG_STATE_HOME": self.work, "GYRE_CACHE_DIR": self.work,
            "LD_LIBRARY_PATH": ":".join([libraries, os.path.join(HERE, "bin")] + cuda.split(":"))}

    def left_s(self):
        return self.ends - time.monotonic()

    def run(self, command, limit_s, **extra):
        """Status, output and seconds of a program of the folder; 124 where it was stopped at its limit."""
        return run_limited(command, min(limit_s, self.left_s()), {**self.environment, **extra}, self.work)

    def program(self, name):
        return os.path.join(HERE, "bin", name)


def run_limited(command, limit_s, environment, folder):
    begun = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=environment, cwd=folder, start_new_session=True)
    try:
        output = process.communicate(timeout=max(limit_s, 1))[0]
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output, status = process.communicate()[0], 124
    return status, output.decode(errors="replace"), time.monotonic() - begun


def is_loadable(name):
    try:
        ctypes.CDLL(name)
        return True
    except OSError:
        return False


# ---- the report ----

class Report:
    def __init__(self, path):
        self.path, self.about, self.rows, self.figures, self.is_good = path, [], [], {}, True

    def add(self, section, name, verdict, seconds, is_good=True):
        self.is_good = self.is_good and is_good
        self.rows.append((section, name, verdict, seconds))
        print(f"{section}: {name}: {verdict} ({seconds:.1f} s)", flush=True)
        self.write()

    def figure(self, name, value, unit, floor=None, torch=None):
        self.figures[name] = {"value": value, "unit": unit, "floor": floor, "torch": torch}
        print(f"figure: {name} {value:.6g} {unit}", flush=True)

    def write(self):
        lines = ["# A device", ""] + [f"- {line}" for line in self.about] + [""]
        lines += ["| what | piece | verdict | s |", "|---|---|---|---|"]
        lines += [f"| {section} | {name} | {verdict.replace('|', '/')} | {seconds:.1f} |"
                  for section, name, verdict, seconds in self.rows]
        if self.figures:
            lines += ["", "| figure | Gyre | unit | floor | share of it | PyTorch | ratio | bar |",
                      "|---|---|---|---|---|---|---|---|"]
            lines += [figure_line(name, figure, self.figures) for name, figure in self.figures.items()]
        if self.path:
            with open(self.path + ".part", "w") as out:
                out.write("\n".join(lines) + "\n")
            os.replace(self.path + ".part", self.path)
        return "\n".join(lines)


def is_rate(figure):
    return figure["unit"].endswith("/s")


def of_bar(name, figure, figures):
    """What a bar speaks of: PyTorch's time by Gyre's for products, Gyre's by PyTorch's for steps, else a share of what was measured."""
    if not figure["value"]:
        return None
    if name == "gpt_step":
        return figure["value"] / figure["torch"] if figure["torch"] else None
    if name in MEASURED:
        measured = figures.get(MEASURED[name])
        return figure["value"] / measured["value"] if measured else None
    if figure["torch"]:
        return figure["value"] / figure["torch"] if is_rate(figure) else figure["torch"] / figure["value"]
    return None


def misses_bar(name, figure, figures):
    share, bar = of_bar(name, figure, figures), BARS.get(name)
    return share is not None and bar is not None and (share > bar if name == "gpt_step" else share < bar)


def figure_line(name, figure, figures):
    floor, torch, bar = figure["floor"], figure["torch"], BARS.get(name)
    share = "-"
    if floor and figure["value"]:
        share = f"{figure['value'] / floor if is_rate(figure) else floor / figure['value']:.2f}"
    ratio = of_bar(name, figure, figures)
    verdict = "-" if bar is None else str(bar) if ratio is None else \
        f"{bar}: {'missed' if misses_bar(name, figure, figures) else 'met'}"
    cells = [name, f"{figure['value']:.5g}", figure["unit"], f"{floor:.5g}" if floor else "-", share,
             f"{torch:.5g}" if torch else "-", f"{ratio:.3f}" if ratio is not None else "-", verdict]
    return "| " + " | ".join(cells) + " |"


def driver_version():
    try:
        with open("/proc/driver/nvidia/version") as text:
            found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text.read())
            return found.group(1) if found else "unknown"
    except OSError:
        return "unknown"


def torch_version(machine):
    if machine.options.stand_in:
        return None
    status, output, _ = run_limited([sys.executable, "-c", "import torch; assert torch.cuda.is_available(); "
                                     "print('torch', torch.__version__)"], 120, dict(os.environ), machine.work)
    found = re.search(r"^torch (\S+)$", output, re.M)
    return found.group(1) if status == 0 and found else None


def describe(machine, report):
    """The head of the report. Missing where there is no device."""
    status, info, _ = machine.run([machine.program("gyre"), "info"], 60)
    lines = dict(re.findall(r"^([a-z][a-z0-9 -]*): (.*)$", info, re.M))
    if status != 0 or "device 0" not in lines:
        raise Missing(f"no device: {lines.get('devices', info.strip() or f'gyre info ended with status {status}')}")
    for library in ("nvrtc", "cublaslt"):
        if lines.get(library, "none").startswith("none"):
            raise Missing(f"{library}: {lines.get(library)}")
    with open(os.path.join(HERE, "about")) as about:
        built = about.read().strip()
    torch = torch_version(machine)
    report.about += [f"date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
                     built, f"device 0: {lines['device 0']}",
                     f"driver: {driver_version()}, CUDA {lines['cuda driver']}",
                     f"NVRTC {lines['nvrtc']}, cuBLASLt {lines['cublaslt']}",
                     f"host: {lines.get('cpu', 'unknown')}, {lines.get('cores', '?')}; {platform.release()}",
                     f"PyTorch: {torch or 'none with a device'}"]
    if machine.options.stand_in:
        report.about.append("this is the test library that stands in for a device: no figure means anything")
    print("\n".join(report.about), flush=True)
    report.write()
    return torch


# ---- tests ----

def verdict_of(status, output):
    """Of a cmocka program."""
    if status == 124:
        return "FAILED: stopped at its time limit"
    passed = re.search(r"\[  PASSED  \] (\d+) test", output)
    skipped = re.search(r"\[  SKIPPED \] (\d+) test", output)
    if status == 0 and passed:
        return f"passed {passed.group(1)}" + (f", left out {skipped.group(1)}" if skipped else "")
    failed = re.findall(r"^\[  FAILED  \] ([a-z_0-9]+)$", output, re.M)
    reason = re.search(r"^(?:ERROR: |.*error: )(.*)$", output, re.M)
    return f"FAILED (status {status}): {', '.join(dict.fromkeys(failed))}: " \
           f"{reason.group(1) if reason else output.strip()[-300:]}".replace("\n", " ")


def last_line(output):
    return (output.strip().splitlines() or ["it printed nothing"])[-1][-300:]


def side_by_side(pieces, at_once):
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for done in concurrent.futures.as_completed([pool.submit(piece) for piece in pieces]):
            yield done.result()


def save_log(machine, name, output):
    if machine.options.logs:
        os.makedirs(machine.options.logs, exist_ok=True)
        with open(os.path.join(machine.options.logs, name + ".log"), "w") as out:
            out.write(output)


def run_tests(machine, report):
    # All texts would take the stand-in's C compiler minutes; the suite compiles them in one piece.
    names = [name for name, _ in TESTS if not machine.options.stand_in or name in ("cuda_product_test", "ops_unfold_test")]

    def piece(name):
        status, output, seconds = machine.run([os.path.join(machine.work, name)], 180)
        save_log(machine, name, output)
        return name, verdict_of(status, output), seconds, status == 0
    for name, verdict, seconds, is_good in side_by_side([lambda n=name: piece(n) for name in names], 4):
        report.add("tests", name, verdict, seconds, is_good)


# ---- trainings ----

def train(machine, model, device, steps):
    data = "text/tinyshakespeare.txt" if model == "gpt" else "mnist"
    sizes = ["--layers", "2", "--model-width", "64", "--heads", "2", "--context", "64"] if model == "gpt" else []
    if model == "gpt" and not machine.options.stand_in:
        sizes += ["--precision", "bf16"]
    command = [machine.program("gyre"), "train", model, "--data", os.path.join(HERE, "data", data), "--steps", str(steps),
               "--batch", "32", "--device", device, "--output", os.path.join(machine.work, f"{model}-{device}")] + sizes
    status, output, seconds = machine.run(command, 120)
    save_log(machine, f"train-{model}-{device}", output)
    losses = re.findall(r"(?:test )?loss:? ([0-9.]+)", output)
    if status != 0 or not losses:
        raise Failed(f"--device {device}: status {status}: {output.strip()[-200:]}".replace("\n", " "))
    return float(losses[-1]), seconds


def run_trainings(machine, report):
    steps = {"softmax": 3} if machine.options.stand_in else {"softmax": 200, "mlp": 200, "lenet": 100, "gpt": 200}
    for model, count in steps.items():
        begun = time.monotonic()
        if machine.left_s() < 20:
            report.add("trainings", model, "left out: no time", 0, False)
            continue
        try:
            here, here_s = train(machine, model, "none", count)
            there, there_s = train(machine, model, "0", count)
            is_near = abs(here - there) <= 0.02 * max(1, here)
            report.add("trainings", model, f"{'passed' if is_near else 'FAILED'}: test loss after {count} steps {there:.4f} in "
                       f"{there_s:.1f} s, on the CPU {here:.4f} in {here_s:.1f} s", time.monotonic() - begun, is_near)
        except Failed as failure:
            report.add("trainings", model, f"FAILED: {failure}", time.monotonic() - begun, False)


# ---- sanitizers ----

def run_sanitizers(machine, report):
    tool = None if machine.options.stand_in else find_tool("compute-sanitizer")
    if tool is None:
        report.add("sanitizers", "all", "left out: no compute-sanitizer here", 0)
        return

    def piece(kind, name):
        limit_s = min(150, machine.left_s())
        command = [tool, "--tool", kind, "--error-exitcode", "99", "--target-processes", "all",
                   os.path.join(machine.work, name)]
        status, output, seconds = machine.run(command, limit_s)
        save_log(machine, f"{kind}-{name}", output)
        summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", output)
        verdict = "stopped at its time limit" if status == 124 else (summary[-1] if summary else output.strip()[-200:])
        return f"{kind} {name}", f"{'passed' if status == 0 else f'FAILED (status {status})'}: {verdict}".replace("\n", " "), \
            seconds, status == 0
    if machine.left_s() < 30:
        report.add("sanitizers", "all", "left out: no time", 0, False)
        return
    pieces = [lambda k=kind, n=name: piece(k, n) for kind, name in SANITIZED]
    for name, verdict, seconds, is_good in side_by_side(pieces, 6):
        report.add("sanitizers", name, verdict, seconds, is_good)


# ---- benches ----

def figures_of(output):
    """Lines NAME VALUE UNIT FLOOR, separated by tabs."""
    for line in output.splitlines():
        cells = line.split("\t")
        if len(cells) == 4:
            yield cells[0], float(cells[1]), cells[2], None if cells[3] == "-" else float(cells[3])


def bench_device(machine, report, torch):
    command = [machine.program("bench_device"), "0"] + (["small"] if machine.options.stand_in else [])
    status, output, seconds = machine.run(command, 120)
    peers = {}
    if torch:
        said = run_limited([sys.executable, os.path.join(HERE, "torch_device.py")], min(120, machine.left_s()),
                           dict(os.environ), machine.work)[1]
        peers = {name: value for name, value, _, _ in figures_of(said)}
        save_log(machine, "torch_device", said)
    save_log(machine, "bench_device", output)
    for name, value, unit, floor in figures_of(output):
        report.figure(name, value, unit, floor, peers.get(name))
    report.add("benches", "products, copies, launches",
               "passed" if status == 0 else f"FAILED (status {status}): {last_line(output)}", seconds, status == 0)


class Stepper:
    """A program that runs so many steps for each line that it reads, and answers seconds and loss."""

    def __init__(self, machine, command, environment):
        self.machine = machine
        self.log = open(os.path.join(machine.work, os.path.basename(command[0]) + ".err"), "w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=environment, cwd=machine.work, start_new_session=True)
        self.about = self.line(180)

    def line(self, limit_s):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            future = pool.submit(self.process.stdout.readline)
            try:
                text = future.result(timeout=max(1, min(limit_s, self.machine.left_s())))
            except concurrent.futures.TimeoutError:
                os.killpg(self.process.pid, 9)
                raise Failed("stopped at its time limit")
        if not text:
            self.process.wait(timeout=30)
            self.log.seek(0)
            raise Failed(f"status {self.process.returncode}: {self.log.read().strip()[-300:]}".replace("\n", " "))
        return text.strip()

    def steps(self, count, limit_s=180):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        seconds, loss, *rest = self.line(limit_s).split()
        self.there = int(rest[0]) if rest else 0  # nodes on the device
        return float(seconds) / count, float(loss)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()


def measure_steps(stepper):
    """Loss of the first step, and the median seconds of others."""
    try:
        loss = stepper.steps(1)[1]
        once = stepper.steps(1)[0]
        count = max(1, min(20, int(1.0 / once)))
        return loss, sorted(stepper.steps(count)[0] for _ in range(3 if once < 5 else 1))[0 if once >= 5 else 1]
    finally:
        stepper.close()


def gpt_flops(sizes, batch):
    """Products of a step: forward, and twice that back; of attention the half that a causal mask leaves."""
    layers, width, length, vocabulary = sizes["layers"], sizes["width"], sizes["context"], 1024
    products = batch * length * (12 * layers * width * width + vocabulary * width)
    return 2 * (3 * products + 7 * layers * batch * length * length * width / 2)


def bench_gpt(machine, report, torch):
    sizes, batch = dict(GPT), GPT_BATCH
    if machine.options.stand_in:
        sizes, batch = {"layers": 1, "width": 16, "heads": 2, "context": 8}, 2
    flags = ["nodropout"] + ([] if machine.options.stand_in else ["bf16"]) + [f"{key}={value}" for key, value in sizes.items()]
    begun = time.monotonic()
    name = "gpt step, " + ", ".join(f"{key} {value}" for key, value in sizes.items()) + f", batch {batch}"
    try:
        ours = Stepper(machine, [machine.program("bench_steps"), "gpt", str(batch), "wall"] + flags,
                       {**machine.environment, "GYRE_DEVICE": "0"})
        loss, seconds = measure_steps(ours)
        peer = None
        verdict = f"{ours.there} nodes on the device, loss of the first step {loss:.4f}"
        if not ours.there and not machine.options.stand_in:
            raise Failed(verdict)
        if torch:
            peer_loss, peer = measure_steps(Stepper(
                machine, [sys.executable, os.path.join(HERE, "torch_peer.py"), "gpt", str(batch), "cuda"] + flags,
                dict(os.environ)))
            verdict += f", PyTorch's {peer_loss:.4f}"
            if not abs(loss - peer_loss) <= 0.02:
                raise Failed(verdict)
        reference = report.figures.get("product_bf16_8192")
        floor = None
        if reference and reference["floor"]:  # at the peak of the units for products
            floor = gpt_flops(sizes, batch) / (2 * 8192**3 / reference["floor"])
        report.figure("gpt_step", seconds * 1e3, "ms", floor, peer * 1e3 if peer else None)
        report.add("benches", name, "passed: " + verdict, time.monotonic() - begun)
    except (Failed, OSError, ValueError) as failure:
        report.add("benches", name, f"FAILED: {failure}", time.monotonic() - begun, False)


def run_benches(machine, report, torch):
    bench_device(machine, report, torch)
    bench_gpt(machine, report, torch)


# ---- all of it ----

def run_all(machine, report):
    torch = describe(machine, report)
    runs = {"tests": run_tests, "trainings": run_trainings, "sanitizers": run_sanitizers,
            "benches": lambda m, r: run_benches(m, r, torch)}
    for section in SECTIONS:
        if section not in machine.options.only:
            continue
        if machine.left_s() < 10:
            report.add(section, "all", "left out: no time", 0, False)
            continue
        begun = time.monotonic()
        try:
            runs[section](machine, report)
        except Exception as failure:  # the other sections run all the same: a machine is not lent twice
            report.add(section, "all", f"FAILED: {type(failure).__name__}: {failure}", time.monotonic() - begun, False)
    missed = [name for name, figure in report.figures.items() if misses_bar(name, figure, report.figures)]
    if missed:
        report.add("benches", "bars", "missed: " + ", ".join(missed), 0, False)


def main():
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--report", default="", help="file that the report is written to")
    parser.add_argument("--logs", default="", help="folder for the output of each piece")
    parser.add_argument("--seconds", type=float, default=540, help="time for all of it (default: 540)")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    parser.add_argument("--stand-in", action="store_true", help="the test library in place of a device")
    options = parser.parse_args()
    options.only = options.only.split(",")
    if options.stand_in:
        BARS.clear()
    for section in options.only:
        if section not in SECTIONS:
            parser.error(f"no section '{section}': expected {', '.join(SECTIONS)}")
    for path in ("report", "logs"):
        setattr(options, path, os.path.abspath(getattr(options, path)) if getattr(options, path) else "")
    report, machine = Report(options.report), None
    try:
        machine = Machine(options)
        run_all(machine, report)
        print("\n" + report.write())
        return 0 if report.is_good else 1
    except Missing as missing:
        print(f"device: {missing}", file=sys.stderr)
        return 3
    finally:
        if machine:
            shutil.rmtree(machine.work, ignore_errors=True)


sys.exit(main())
