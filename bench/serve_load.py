"""A server under mixed load: writes FOLDER/load.csv, a row every 30 s, and prints a summary.

    serve_load.py TANDEM FOLDER [--minutes N] [--pause FACTOR]

`tandem serve` of tandem-tiny over two emulated devices of home4. Clients, each a thread, ask for whole and streamed answers, n of
them, answers of a given form and chats of many turns; others read slowly, vanish in the middle of an answer, send half a request,
a body of 100 MB or mutated bytes. Every greedy answer is compared with the first to the same prompt: one is the start of the other.
A row has memory, open files and threads of the server and its devices, and what the clients have seen.
"""

import argparse
import collections
import csv
import http.client
import json
import os
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACES = ("attic", "cellar", "garden", "kitchen", "tower", "library", "stable", "harbour")
COLOURS = ("red", "blue", "green", "white", "black")
PROMPTS = [f"The {colour} lamp is in the {place}. Question: Where is the {colour} lamp? Answer:"
           for colour in COLOURS for place in PLACES]
TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
FORM = {"type": "json_schema", "json_schema": {"name": "lamp", "schema": {
    "type": "object", "properties": {"where": {"enum": list(PLACES)}}, "required": ["where"], "additionalProperties": False}}}


class Load:
    def __init__(self, port, end):
        self.port, self.end = port, end
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.answers = {}

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def post(self, body, path="/v1/completions"):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        link.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return link, link.getresponse()

    def ask(self, body, path="/v1/completions"):
        """The parsed answer; None if the server is full."""
        link, reply = self.post(body, path)
        data = reply.read()
        link.close()
        if reply.status != 200:
            self.refused(reply.status, data)
            return None
        return json.loads(data)

    def ready(self):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            link.request("GET", "/health")
            return link.getresponse().status == 200
        except OSError:
            return False
        finally:
            link.close()

    def refused(self, status, data):
        if status not in (429, 503):
            raise RuntimeError(f"{status}: {data[:300]!r}")
        self.count(f"refused with {status}: {json.loads(data)['error']['message']}")

    def compare(self, prompt, text):
        with self.lock:
            before = self.answers.get(prompt, "")
            longer, shorter = (before, text) if len(before) > len(text) else (text, before)
            self.counts["answers"] += 1
            if not longer.startswith(shorter):
                self.counts["answers that differ"] += 1
            self.answers[prompt] = longer

    @staticmethod
    def request(draw):
        return {"model": "tandem-tiny", "prompt": draw.choice(PROMPTS), "max_tokens": draw.randint(2, 24), "temperature": 0}

    def whole(self, draw):
        body = self.request(draw)
        answer = self.ask(body)
        if answer:
            self.compare(body["prompt"], answer["choices"][0]["text"])

    def several(self, draw):
        body = self.request(draw) | {"n": 3, "temperature": 1.0, "seed": draw.randint(0, 9)}
        answer = self.ask(body)
        if answer:
            assert len(answer["choices"]) == 3
            self.count("answers of several")

    def formed(self, draw):
        answer = self.ask({"model": "tandem-tiny", "messages": [{"role": "user", "content": draw.choice(PROMPTS)}],
                           "max_tokens": 64, "response_format": FORM}, "/v1/chat/completions")
        if answer:
            choice = answer["choices"][0]
            assert choice["finish_reason"] == "length" or json.loads(choice["message"]["content"])["where"] in PLACES
            self.count("answers of a form")

    def chat(self, draw):
        messages = []
        for turn in range(6):
            messages.append({"role": "user", "content": f"{draw.choice(PROMPTS)} ({turn})"})
            answer = self.ask({"model": "tandem-tiny", "messages": messages, "max_tokens": 8}, "/v1/chat/completions")
            if not answer:
                return
            messages.append(answer["choices"][0]["message"])
            self.count("turns")

    def streamed(self, draw, pause=0.0, parts=None):
        body = self.request(draw) | {"stream": True}
        link, reply = self.post(body)
        if reply.status != 200:
            self.refused(reply.status, reply.read())
            link.close()
            return
        text, seen = "", 0
        while line := reply.readline():
            time.sleep(pause)
            if line.startswith(b"data: {"):
                text += json.loads(line[6:])["choices"][0]["text"]
                seen += 1
            if parts is not None and seen >= parts:
                link.close()
                self.count("vanished")
                return
        link.close()
        self.compare(body["prompt"], text)

    def slow(self, draw):
        self.streamed(draw, pause=draw.uniform(0.05, 0.5))

    def vanishing(self, draw):
        self.streamed(draw, parts=draw.randint(0, 3))

    def half(self, draw):
        body = json.dumps(self.request(draw)).encode()
        head = (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        with socket.create_connection(("127.0.0.1", self.port)) as link:
            link.sendall((head + body)[:draw.randint(1, len(head) + len(body) - 1)])
            time.sleep(draw.uniform(0, 10))
        self.count("half requests")

    def large(self, draw):
        size = 100_000_000
        with socket.create_connection(("127.0.0.1", self.port)) as link:
            link.settimeout(60)
            try:
                link.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                             f"Content-Length: {size}\r\n\r\n".encode())
                for _ in range(size // 100_000):
                    link.sendall(b" " * 100_000)
            except OSError:
                pass
        self.count("bodies of 100 MB")
        time.sleep(draw.uniform(5, 20))

    def mutated(self, draw):
        body = bytearray(json.dumps(self.request(draw)).encode())
        for _ in range(draw.randint(1, 5)):
            body[draw.randrange(len(body))] = draw.randrange(256)
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        link.request("POST", "/v1/completions", bytes(body), {"Content-Type": "application/json"})
        link.getresponse().read()
        link.close()
        self.count("mutated requests")

    def client(self, kind, seed, pause):
        draw = random.Random(seed)
        while time.monotonic() < self.end:
            try:
                getattr(self, kind)(draw)
            except Exception as error:  # pylint: disable=broad-except
                self.count(f"errors: {kind}: {str(error)[:120]}")
                time.sleep(1)
            time.sleep(draw.uniform(0, 2 * pause))


def processes(root):
    """The process and all below it."""
    children = collections.defaultdict(list)
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                children[int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])].append(int(entry.name))
            except OSError:
                pass
    found, left = [], [root]
    while left:
        found.append(left.pop())
        left += children[found[-1]]
    return found


def state(root):
    """Resident MiB, open files and threads of the server, and MiB of its devices."""
    def resident(pid):
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return int(fields["VmRSS"].split()[0]) / 1024, int(fields["Threads"])
    server, threads = resident(root)
    devices = sum(resident(pid)[0] for pid in processes(root)[1:])
    return {"server_mib": round(server, 1), "devices_mib": round(devices, 1),
            "files": len(os.listdir(f"/proc/{root}/fd")), "threads": threads}


def watch(load, server, folder, begin):
    rows = []
    with open(folder / "load.csv", "w", newline="", encoding="utf-8") as file:
        while time.monotonic() < load.end and server.poll() is None:
            with load.lock:
                counts = load.counts
                row = {"seconds": round(time.monotonic() - begin), **state(server.pid), "answers": counts["answers"],
                       "differ": counts["answers that differ"],
                       "errors": sum(n for name, n in counts.items() if name.startswith("errors"))}
            if not rows:
                table = csv.DictWriter(file, row.keys())
                table.writeheader()
            rows.append(row)
            table.writerow(row)
            file.flush()
            time.sleep(min(30, max(0, load.end - time.monotonic())))
    load.end = time.monotonic()
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tandem", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--pause", type=float, default=1, help="clients wait so many times longer between requests")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    tandem, folder = given.tandem.resolve(), given.folder.resolve()

    shutil.copytree(ROOT / "scenarios/models/tandem-tiny", folder / "tandem-tiny", dirs_exist_ok=True)
    (folder / "tandem-tiny/chat_template.jinja").write_text(TEMPLATE)
    subprocess.run([tandem, "plan", "--platform", "home4", "--devices", "desktop,laptop", "--model", "tandem-tiny", "--strategy",
                    "tensor", "--samples", "8", "--policy", "continuous", "--chunk", "64", "--prompt-tokens", "200", "--new-tokens",
                    "100", "--quiet", "--out", "plan.json"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(folder / "serve.log", "w", encoding="utf-8") as log:
        server = subprocess.Popen([tandem, "serve", "plan.json", "--weights", "tandem-tiny", "--emulate", "--listen",
                                   f"127.0.0.1:{port}"], cwd=folder, stdout=log, stderr=log)
    begin = time.monotonic()
    load = Load(port, begin + 60 * given.minutes)
    while not load.ready():
        if server.poll() is not None or time.monotonic() > begin + 120:
            raise SystemExit(f"the server does not answer: see {folder}/serve.log")
        time.sleep(0.5)

    kinds = [("whole", 1.0)] * 3 + [("streamed", 1.0)] * 2 + [("several", 3.0), ("formed", 3.0), ("chat", 3.0), ("slow", 1.0),
                                                             ("slow", 1.0), ("vanishing", 1.0), ("vanishing", 1.0),
                                                             ("half", 1.0), ("mutated", 1.0), ("large", 30.0)]
    clients = [threading.Thread(target=load.client, args=(kind, seed, given.pause * pause), daemon=True)
               for seed, (kind, pause) in enumerate(kinds)]
    for client in clients:
        client.start()
    rows = watch(load, server, folder, begin)
    for client in clients:
        client.join(timeout=120)
    ended = server.poll()
    server.terminate()
    server.wait(timeout=60)

    print(f"{(time.monotonic() - begin) / 60:.0f} minutes; the server "
          f"{'answered to the end' if ended is None else f'ended with {ended}'}; load of the machine {os.getloadavg()[0]:.1f}")
    for name, number in sorted(load.counts.items()):
        print(f"{number:8d} {name}")
    quarter = len(rows) // 4
    for name in ("server_mib", "devices_mib", "files", "threads"):
        print(f"{name:12} median by quarter: " + ", ".join(
            f"{statistics.median(row[name] for row in rows[k * quarter:(k + 1) * quarter or None]):g}" for k in range(4)
            if rows[k * quarter:(k + 1) * quarter]) + f"; highest {max(row[name] for row in rows):g}")


if __name__ == "__main__":
    main()
