# The worker of a recursive model: a REPL that runs inside the sandbox (docs/sandbox.md), started as
# `python3 -S -s -B -c <this text>`. Frames on descriptor 0 (from the host) and 1 (to it) are 4
# bytes of length, most significant first, and that much JSON. Python 3.9 and later, standard
# library only.
#
# This file does not confine hostile code: the code of a cell may read and change all of it. The
# sandbox around the process does that. This file makes sure that honest code finds a REPL that
# works.
#
# The main thread runs commands and cells; other threads exist only if a cell starts them. Any
# thread may ask a question: whichever thread finds `reading` false reads the next frame for all,
# and puts frames for others into `box`. The host interrupts a cell with a signal; while the main
# thread is inside a frame (`io`), the signal is only remembered, so that no frame is left half
# written.
import os
import sys


class State:
    running = False  # code of a cell is running and may be interrupted
    asking = False  # a cell runs: its sub-calls are answered
    cell = 0  # changes when a cell begins and when it ends
    io = 0  # the main thread is inside a frame, which must not be interrupted
    interrupted = False
    reading = False  # a thread is waiting for the host's next frame
    calls = 0
    final = None


MAX_FRAME = 64 << 20
MAX_ERROR = 8000  # characters of a traceback
MAX_VARIABLES = 1000  # reported to the host, which bounds them too
TOP_LEVEL_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
COROUTINE = 0x80  # inspect.CO_COROUTINE: the code awaits something
state = State()


def put(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


# This is sent before anything is imported, so that the host can prepare the first command
# meanwhile.
put(b"\0\0\0\x0e" + b'{"op":"ready"}')

import _thread  # noqa: E402
import builtins  # noqa: E402
import io  # noqa: E402
import json  # noqa: E402
import linecache  # noqa: E402
import signal  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
import types  # noqa: E402

main_thread = _thread.get_ident()
writing = threading.Lock()
arrived = threading.Condition()
box = {}  # frames that wait for their reader: by a reply's id, and the next command by None


# ---- Frames ------------------------------------------------------------------------------------------------------


def read_into(view):
    got = 0
    while got < len(view):
        count = channel.readinto(view[got:])
        if not count:
            os._exit(0)  # the host is gone
        got += count


channel = io.FileIO(0, closefd=False)


def receive():
    length = bytearray(4)
    read_into(memoryview(length))
    size = int.from_bytes(length, "big")
    if size > MAX_FRAME:
        os._exit(3)
    body = bytearray(size)
    read_into(memoryview(body))
    try:
        frame = json.loads(body)
        frame["op"]
    except Exception:
        os._exit(3)
    return frame


class Whole:
    """Within it, an interrupt of the main thread waits until the end."""

    def __enter__(self):
        if _thread.get_ident() == main_thread:
            state.io += 1

    def __exit__(self, *_):
        if _thread.get_ident() != main_thread:
            return
        state.io -= 1
        if state.interrupted and not state.io:
            state.interrupted = False
            if state.running:
                state.running = False
                raise KeyboardInterrupt("the cell was stopped")


whole = Whole()


def send(frame):
    data = json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    if len(data) > MAX_FRAME:
        raise ValueError("%d bytes are too many for one message to the host, which takes %d" % (len(data), MAX_FRAME))
    with whole, writing:
        put(len(data).to_bytes(4, "big"))
        put(data)


def take(key):
    """The reply with the id `key`; None: the next command. The first thread that waits reads for all."""
    with whole, arrived:
        cell = state.cell
        while key not in box:
            if key is not None and state.cell != cell:
                raise SystemExit("the cell that asked has ended")  # ends its thread without a word
            if state.reading:
                arrived.wait()
                continue
            state.reading = True
            arrived.release()
            try:
                frame = receive()
            finally:
                arrived.acquire()
                state.reading = False
            box[frame.get("id") if frame["op"] == "reply" else None] = frame
            arrived.notify_all()
        return box.pop(key)


def interrupt(*_):
    if state.io:
        state.interrupted = True
    elif state.running:
        state.running = False
        raise KeyboardInterrupt("the cell was stopped")


# ---- What a cell may call ----------------------------------------------------------------------------------------


def ask(kind, prompts, model):
    prompts = [prompt if isinstance(prompt, str) else str(prompt) for prompt in prompts]
    if not prompts:
        return []
    if not state.asking:
        why = "sub-calls are answered while a cell runs"
        raise RuntimeError(why) if _thread.get_ident() == main_thread else SystemExit(why)
    with writing:
        state.calls += 1
        number = state.calls
    send({"op": "call", "id": number, "kind": kind, "prompts": prompts, "model": None if model is None else str(model)})
    return take(number)["texts"]


def llm_query(prompt, model=None):
    """Asks the sub-model; an answer that fails begins with "Error: "."""
    return ask("llm", [prompt], model)[0]


def llm_query_batched(prompts, model=None):
    """Asks the sub-model all prompts at the same time; answers come in the order of the prompts."""
    return ask("llm", prompts, model)


def rlm_query(prompt, model=None):
    """As llm_query, but the prompt becomes the context of a recursive model of its own."""
    return ask("rlm", [prompt], model)[0]


def rlm_query_batched(prompts, model=None):
    """As llm_query_batched, each prompt with a recursive model of its own."""
    return ask("rlm", prompts, model)


class ToolError(RuntimeError):
    """A call of a tool that failed."""


pool = None  # threads for calls that an event loop waits for


def call_tool(tool, arguments):
    """Calls a tool. Within an event loop the result is to be awaited, so that several calls can be made at the same time."""
    arguments = {name: value for name, value in arguments.items() if value is not ...}
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)

    def result():
        said = ask("tool", [text], tool)[0]
        if said[:1] != "=":
            raise ToolError(said.lstrip("!"))
        return said[1:] if said[1:2] not in ("{", "[") else parsed(said[1:])

    asyncio = sys.modules.get("asyncio")
    loop = asyncio and asyncio._get_running_loop()
    if not loop:
        return result()

    async def later():
        global pool
        if pool is None:
            from concurrent.futures import ThreadPoolExecutor

            pool = ThreadPoolExecutor(32)
        return await loop.run_in_executor(pool, result)

    return later()


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def tool_docs(query):
    """How the functions are called that have these words."""
    return call_tool("tool docs", {"query": str(query)})


def variables():
    own = [name for name in list(names) if isinstance(name, str) and name not in tools and not name.startswith("_")]
    return {name: type(names.get(name)).__name__ for name in own}


def some_variables(_):
    found = list(variables().items())[:MAX_VARIABLES]
    return {"op": "variables", "variables": {name[:200]: kind[:200] for name, kind in found}}


def SHOW_VARS():
    """The variables there are, with their types."""
    found = variables()
    if not found:
        return "No variables created yet. Use ```repl``` blocks to create variables."
    return "Available variables: %s" % found


def FINAL(value=""):
    """Gives `value` as the final answer."""
    state.final = str(value)
    return state.final


def FINAL_VAR(name):
    """Gives the value of the variable `name` as the final answer."""
    if isinstance(name, str):
        name = name.strip().strip("\"'")
        if name not in names:
            return "Error: Variable '%s' not found. %s" % (name, SHOW_VARS())
        return FINAL(names[name])
    return FINAL(name)


module = type(sys)("__main__")
names = module.__dict__
sys.modules["__main__"] = module
tools = {
    "llm_query": llm_query,
    "llm_query_batched": llm_query_batched,
    "rlm_query": rlm_query,
    "rlm_query_batched": rlm_query_batched,
    "SHOW_VARS": SHOW_VARS,
    "FINAL": FINAL,
    "FINAL_VAR": FINAL_VAR,
}
# Restored after each cell, together with loaded values.
kept = dict(tools, answer={"content": "", "ready": False})


def restore():
    answer = names.get("answer")
    if "answer" not in kept:
        pass  # code that calls tools gives no answer
    elif isinstance(answer, dict):
        kept["answer"] = answer
    elif "answer" in names:
        kept["answer"] = {"content": "", "ready": False}
    names.update(kept)
    names["__builtins__"] = builtins


class Output(io.TextIOBase):
    """What was printed: its first `limit` characters, and how many there were."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self):
        self.begin(0)

    def begin(self, limit):
        self.parts, self.kept, self.size, self.limit = [], 0, 0, limit

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not %s" % type(text).__name__)
        if self.kept < self.limit:
            part = text[: self.limit - self.kept]
            self.parts.append(part)
            self.kept += len(part)
            if len(self.parts) > 10000:
                self.parts = ["".join(self.parts)]
        self.size += len(text)
        return len(text)

    def writable(self):
        return True

    def text(self):
        return "".join(self.parts)


stdout, stderr = Output(), Output()


# ---- Threads and event loops -------------------------------------------------------------------------------------


class PipeEnd:
    """The part of a socket that an event loop wakes itself with, over a pipe: the sandbox has no sockets."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def fileno(self):
        return self.descriptor

    def setblocking(self, is_blocking):
        os.set_blocking(self.descriptor, is_blocking)

    def recv(self, size):
        return os.read(self.descriptor, size)

    def send(self, data):
        return os.write(self.descriptor, data)

    def close(self):
        os.close(self.descriptor)


class EventLoops:
    """Finds asyncio.selector_events as ever, and makes its loops wake themselves by pipes."""

    def find_spec(self, name, path, target=None):
        if name != "asyncio.selector_events":
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(loop_module):
            load(loop_module)

            def make_self_pipe(loop):
                loop._ssock, loop._csock = map(PipeEnd, os.pipe())
                loop._ssock.setblocking(False)
                loop._csock.setblocking(False)
                loop._internal_fds += 1
                loop._add_reader(loop._ssock.fileno(), loop._read_from_self)

            loop_module.BaseSelectorEventLoop._make_self_pipe = make_self_pipe

        spec.loader.exec_module = exec_module
        return spec


told = set()  # threads that did not end in time, of which the model was told


def frames_of(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_idle(frame):
    """A thread of a pool that waits for work does nothing, and the next cell may give it some."""
    module = sys.modules.get("concurrent.futures.thread")
    return module is not None and frame.f_code is module._worker.__code__


endings = {}  # how often each thread was to end, by its number


class Ended(SystemExit):
    """Ends a thread, and holds one that catches it.

    Python makes the exception in that thread as soon as something there handles it. The handlers of `with`, `finally` and threading
    itself get the first ones, so that locks are freed. A thread that goes on and meets a third waits in here for ever.
    """

    def __init__(self):
        me = _thread.get_ident()
        endings[me] = endings.get(me, 0) + 1
        if endings[me] > 2:
            hold()


def hide_endings():
    """Keeps threading from printing a traceback for Ended; it does so for all but SystemExit itself."""
    threading = sys.modules.get("threading")
    if threading is None or hasattr(threading.excepthook, "hides_endings"):
        return
    others = threading.excepthook

    def hook(args):
        if args.exc_type is not Ended:
            others(args)

    hook.hides_endings = True
    threading.excepthook = hook


def hold():
    never = _thread.allocate_lock()
    never.acquire()
    never.acquire()


def running_threads():
    frames = sys._current_frames()
    told.intersection_update(frames)
    for thread in set(endings) - set(frames):  # numbers are given anew
        endings.pop(thread, None)
    return [
        (thread, frame)
        for thread, frame in frames.items()
        if thread != main_thread
        and thread not in told
        and not is_idle(frame)
        and frame.f_code is not hold.__code__
    ]


def forget_work():
    """Takes back what was given to pools and has not begun."""
    module = sys.modules.get("concurrent.futures.thread")
    for queue in set(getattr(module, "_threads_queues", {}).values()):
        try:
            while True:
                work = queue.get_nowait()
                if work is None:
                    queue.put(None)  # the pool ends its threads with it
                    break
                work.future.cancel()
        except Exception:
            pass


def stop_threads():
    """Ends the threads that a cell has left behind, and returns what is to be told of them.

    A thread that asks (`ask`) is left alone: it may be within a frame, and ends by itself with the next one. A thread that waits for
    something else ends once it wakes. One that catches SystemExit and goes on is held (Ended).
    """
    # A thread that has made a call for an event loop may not be idle yet.
    for _ in range(20):
        if pool is None or not running_threads():
            break
        time.sleep(0.001)
    if not running_threads():
        return ""
    forget_work()
    hide_endings()
    with arrived:
        arrived.notify_all()  # those that wait for an answer see that their cell has ended
    count, tries = 0, 10
    while tries and running_threads():
        tries -= 1
        threads = running_threads()
        count = max(count, len(threads))
        for thread, frame in threads:
            if all(one.f_code is not ask.__code__ for one in frames_of(frame)):
                end_thread(thread)
        time.sleep(0.01)
    left = running_threads()
    told.update(thread for thread, _ in left)
    text = "Threads of this block still ran at its end and were stopped (%d): wait for threads within the block." % count
    if left:
        text += " %d of them will only stop when they wake." % len(left)
    return text


def end_thread(thread):
    try:
        import ctypes

        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Ended))
    except Exception:
        pass


# ---- Commands ----------------------------------------------------------------------------------------------------


class Packages:
    """Finds the packages that were named and what they need, and nothing that is installed beside them."""

    def __init__(self, homes, entries):
        self.homes = homes
        self.names = {entry.rsplit("/", 1)[-1].split(".")[0] for entry in entries}

    def find_spec(self, name, path=None, target=None):
        from importlib.machinery import PathFinder

        if path is not None or name not in self.names:  # a part of a package has the package's path
            return None
        return PathFinder.find_spec(name, self.homes, target)

    def find_distributions(self, context):
        from importlib.metadata import DistributionFinder, MetadataPathFinder

        return MetadataPathFinder.find_distributions(DistributionFinder.Context(name=context.name, path=self.homes))


def begin(frame):
    import resource

    most, hard = frame["threads"], resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    if frame["homes"]:
        sys.meta_path.append(Packages(frame["homes"], frame["entries"]))
        # Libraries of linear algebra would start a thread for each processor, each with memory of its own.
        for name in ("OPENBLAS", "OMP", "MKL", "NUMEXPR"):
            os.environ[name + "_NUM_THREADS"] = "1"
    if frame["folder"]:
        os.environ["TMPDIR"] = os.environ["HOME"] = frame["folder"]
    return {"op": "begun"}


def check(_):
    """What ought to be impossible, and is possible here."""

    def fork():
        if os.fork() == 0:
            os._exit(0)

    def socket():
        import _socket

        _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, 0).close()

    def descriptors():
        for number in range(3, 64):
            try:
                os.fstat(number)
                return
            except OSError:
                pass
        raise OSError("none")

    def write():
        path = "/tmp/tenon-sandbox-check-%d" % os.getpid()
        open(path, "x").close()
        os.unlink(path)

    tries = {
        "a process": fork,
        "a socket": socket,
        "a signal": lambda: os.kill(os.getppid(), 0),
        "another user": lambda: os.setuid(0),
        "a file of the host": lambda: open("/etc/passwd").close(),
        "a folder of the host": lambda: os.listdir("/etc"),
        "the processes of the host": lambda: os.listdir("/proc"),
        "a file to write": write,
        "a descriptor": descriptors
    }

    possible = []
    for what, attempt in tries.items():
        try:
            attempt()
            possible.append(what)
        except BaseException:
            pass
    return {"op": "checked", "possible": possible}


def load(frame):
    """Bytes follow the frame: `sizes`, each a text; kind "list" makes a list of them, "json" reads the one."""
    data = bytearray(sum(frame["sizes"]))
    read_into(memoryview(data))
    texts, at = [], 0
    view = memoryview(data)
    for size in frame["sizes"]:
        texts.append(str(view[at : at + size], "utf-8", "replace"))
        at += size
    view.release()
    del data
    if frame["kind"] == "list":
        value = texts
    elif frame["kind"] == "json":
        value = json.loads(texts[0])
    else:
        value = texts[0]
    for name in frame["names"]:
        kept[name] = names[name] = value
    try:
        length = len(value)
    except TypeError:
        length = 0
    return {"op": "loaded", "type": type(value).__name__, "length": length}


def functions(frame):
    """Code gets these functions of tools, and none that asks models."""
    for name in tools:
        names.pop(name, None)
        kept.pop(name, None)
    tools.clear()
    kept.pop("answer", None)
    names.pop("answer", None)
    own = {"call_tool": call_tool, "__name__": "__main__"}
    exec(compile(frame["source"], "<functions>", "exec", dont_inherit=True), own)
    tools.update({name: value for name, value in own.items() if callable(value) and not name.startswith("__")})
    tools.update({"tool_docs": tool_docs, "ToolError": ToolError})
    kept.update(tools)
    restore()
    return {"op": "defined"}


def seed(frame):
    import random

    random.seed(frame["value"])
    return {"op": "seeded"}


def get(frame):
    name = frame["name"]
    if name not in names:
        return {"op": "value", "found": False}
    signal.signal(signal.SIGINT, interrupt)
    state.running = True
    text = str(names[name])
    state.running = False
    return {"op": "value", "found": True, "text": text[: frame["max"]], "size": len(text)}


def describe(error, file):
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != file:
        frames = frames.tb_next
    end, at = None, frames
    while at is not None:  # frames of this file at the end are not lines of the cell
        if at.tb_frame.f_globals is not globals():
            end = at
        at = at.tb_next
    if end is not None:
        end.tb_next = None
    try:
        text = "".join(traceback.format_exception(type(error), error, frames)).rstrip("\n")
    except BaseException:
        text = type(error).__name__
    if isinstance(error, MemoryError):
        text += "\nThe sandbox's limit of memory was reached."
    if len(text) > MAX_ERROR:
        half = MAX_ERROR // 2
        text = "%s\n... [%d characters] ...\n%s" % (text[:half], len(text) - 2 * half, text[-half:])
    return text


def run(frame):
    file, code, error = "<cell %d>" % frame["number"], frame["code"], None
    stdout.begin(frame["max_output"])
    stderr.begin(frame["max_output"])
    sys.stdout, sys.stderr, sys.stdin = stdout, stderr, io.StringIO()
    state.final = None
    state.cell += 1
    signal.signal(signal.SIGINT, interrupt)
    try:
        linecache.cache[file] = (len(code), None, code.splitlines(True), file)
        program = compile(code, file, "exec", TOP_LEVEL_AWAIT, dont_inherit=True)
        state.running = state.asking = True
        if program.co_flags & COROUTINE:
            import asyncio

            asyncio.run(types.FunctionType(program, names)())
        else:
            exec(program, names)
        state.running = False
    except BaseException as caught:
        state.running = False
        error = caught
    state.asking = False
    state.cell += 1
    left = stop_threads()
    if left:
        stderr.write(left + "\n")
    done = {"op": "done", "error": None, "kind": "", "final": state.final}
    if error is not None:
        done["error"], done["kind"] = describe(error, file), type(error).__name__
        error.__traceback__ = None
        error = None
    answer = names.get("answer")
    if done["final"] is None and "answer" in kept and isinstance(answer, dict) and answer.get("ready"):
        done["final"] = str(answer.get("content", ""))
    restore()
    for name, output in (("stdout", stdout), ("stderr", stderr)):
        done.update({name: output.text(), name + "_kept": output.kept, name + "_size": output.size})
    return done


COMMANDS = {
    "begin": begin,
    "check": check,
    "load": load,
    "seed": seed,
    "functions": functions,
    "get": get,
    "vars": some_variables,
    "run": run,
}


def main():
    os.dup2(0, 2)  # so that the process has only two pipes
    os.environ.clear()
    sys.path[:] = [folder for folder in sys.path if folder]
    sys.argv[:] = [""]
    sys.setswitchinterval(0.005)
    sys.meta_path.insert(0, EventLoops())
    restore()
    signal.signal(signal.SIGINT, interrupt)
    while True:
        frame = take(None)
        try:
            answer = COMMANDS[frame["op"]](frame)
        except BaseException as error:
            state.running = False
            answer = {"op": "failed", "error": describe(error, ""), "kind": type(error).__name__}
        try:
            send(answer)
        except BaseException as error:
            answer = {"op": "failed", "error": describe(error, ""), "kind": type(error).__name__}
            send(answer)


main()
