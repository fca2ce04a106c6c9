"""An OpenAI-compatible server that computes nothing, for tests and the demonstration.

The time of an answer follows from the options, like on GPUs but shorter. A decoding step takes the sum of three times.
Tensor parallelism divides the time for the weights, and adds a time for communication. Each sequence of the batch adds
a time of its own. A chunk of a prompt takes the same. Requests that do not fit into a batch wait.

On several nodes the first member serves once all others are connected to it. A member that loses another one ends.

    python -m corral.features.tuner.engines.stand_in_server --port 8000 --tensor-parallel-size 2 --max-num-seqs 16
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from typing import Any

_WEIGHTS_S = 0.008
_COMMUNICATION_S = 0.0008
_SEQUENCE_S = 0.00015
_TOKEN_S = 0.00001
_OPTIONS = (
    ("--tensor-parallel-size", int, 1),
    ("--max-num-seqs", int, 4),
    ("--chunk-size", int, 512),
    ("--start-s", float, 0.0),
    ("--fail-every", int, 0),
    ("--nnodes", int, 1),
    ("--node-rank", int, 0),
)
_AGAIN_S = 0.2
_COMPUTED = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")


class StandIn:
    """Serves completions at the speed of its options, and embeddings like prompts without an answer."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._slots = asyncio.Semaphore(options.max_num_seqs)
        self._running = 0
        self._asked = 0

    def step_s(self) -> float:
        """Return the seconds for one token of each running sequence."""
        ranks: int = self._options.tensor_parallel_size
        return _WEIGHTS_S / ranks + _COMMUNICATION_S * (ranks - 1) + _SEQUENCE_S * self._running

    def prefill_s(self, tokens: int) -> float:
        """Return the seconds for a prompt, chunk after chunk."""
        chunk: int = self._options.chunk_size
        ranks: int = self._options.tensor_parallel_size
        return -(-tokens // chunk) * self.step_s() + tokens * _TOKEN_S / ranks

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        try:
            request = (await reader.readline()).decode("latin-1").split()
            length = 0
            while (line := (await reader.readline()).strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            body = await reader.readexactly(length)
            await self._answer(writer, request[1] if len(request) > 1 else "", body)
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass  # the client has gone, or does not speak HTTP
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, path: str, body: bytes) -> None:
        self._asked += path in _COMPUTED
        if path == "/health":
            _respond(writer, 200, {})
        elif path == "/v1/models":
            _respond(writer, 200, {"object": "list", "data": [{"id": self._options.model, "object": "model"}]})
        elif path not in _COMPUTED:
            _respond(writer, 404, {"error": {"message": f"there is nothing at {path}"}})
        elif self._options.fail_every and self._asked % self._options.fail_every == 0:
            _respond(writer, 500, {"error": {"message": "this request was to fail"}})
        elif path == "/v1/embeddings":
            await self._embed(writer, json.loads(body))
        else:
            await self._stream(writer, json.loads(body), chat=path == "/v1/chat/completions")

    async def _embed(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        texts = [str(text) for text in asked.get("input", ())]
        tokens = sum(len(text.split()) for text in texts)
        async with self._slots:
            await asyncio.sleep(self.prefill_s(tokens))
        rows = [{"object": "embedding", "index": index, "embedding": [0.0]} for index in range(len(texts))]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        _respond(writer, 200, {"object": "list", "data": rows, "usage": usage})

    async def _stream(self, writer: asyncio.StreamWriter, asked: dict[str, Any], *, chat: bool) -> None:
        texts = [message.get("content", "") for message in asked.get("messages", ())] if chat else [asked["prompt"]]
        prompt = sum(len(str(text).split()) for text in texts)
        output = int(asked.get("max_tokens") or 16)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        async with self._slots:
            self._running += 1
            try:
                await asyncio.sleep(self.prefill_s(prompt))
                for number in range(output):
                    if number:
                        await asyncio.sleep(self.step_s())
                    said = {"delta": {"content": "a "}} if chat else {"text": "a "}
                    over = "length" if number == output - 1 else None
                    _chunk(writer, {"choices": [{"index": 0, **said, "finish_reason": over}]})
                    await writer.drain()
            finally:
                self._running -= 1
        usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
        _chunk(writer, {"choices": [], "usage": usage})
        done = b"data: [DONE]\n\n"
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(done), done))


def _respond(writer: asyncio.StreamWriter, status: int, answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


def _chunk(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
    data = b"data: " + json.dumps(event).encode() + b"\n\n"
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def main(words: list[str]) -> None:
    """Serve until a signal, with the options of a command line."""
    asyncio.run(_serve(options_of(words)))


async def _serve(options: argparse.Namespace) -> None:
    # The first process of a container ignores SIGTERM unless it handles it, as inference servers do.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, sys.exit)
    await asyncio.sleep(options.start_s)
    if options.node_rank:
        await _join(options)
    elif options.nnodes > 1:
        await _gather(options)
    server = await asyncio.start_server(StandIn(options).serve, options.host, options.port)
    print(f"serving {options.model} at port {server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


async def _join(options: argparse.Namespace) -> None:
    """Connect to the first member, and stay connected. Ends the process once that has gone."""
    host, _, port = options.dist_init_addr.rpartition(":")
    print(f"member {options.node_rank} of {options.nnodes} joins {options.dist_init_addr}", flush=True)
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, int(port))
            break
        except OSError:
            await asyncio.sleep(_AGAIN_S)
    writer.write(f"{options.node_rank}\n".encode())
    await reader.read()
    sys.exit("the first member has gone")


async def _gather(options: argparse.Namespace) -> None:
    """Wait until all other members are connected. The process ends once one of them has gone."""
    missing = set(range(1, options.nnodes))
    all_there = asyncio.Event()

    async def member(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rank = int(await reader.readline())
        print(f"member {rank} of {options.nnodes} is there", flush=True)
        missing.discard(rank)
        if not missing:
            all_there.set()
        try:
            await reader.read()
        except asyncio.CancelledError:
            return  # this server ends
        print(f"member {rank} has gone", file=sys.stderr, flush=True)
        # An exception would end this connection alone.
        os._exit(1)

    host, _, port = options.dist_init_addr.rpartition(":")
    await asyncio.start_server(member, host, int(port))
    await all_there.wait()


def options_of(words: list[str]) -> argparse.Namespace:
    """Return the options of a command line. An unknown one ends the process, as with real servers."""
    parser = argparse.ArgumentParser(prog="stand-in")
    parser.add_argument("--model", default="stand-in")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dist-init-addr", default="")
    for name, kind, default in _OPTIONS:
        parser.add_argument(name, type=kind, default=default)
    return parser.parse_args(words)


if __name__ == "__main__":
    main(sys.argv[1:])
