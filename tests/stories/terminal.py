"""A person at a terminal, for tests: terminal.py SCRIPT COMMAND...

Runs COMMAND on a new terminal of 30 rows and 90 columns. SCRIPT is Python, with
    expect(TEXT)   waits until the terminal has shown TEXT behind what was expected before
    type(TEXT)     types it
    size(R, C)     makes the window another size
    kill(SIGNAL)   sends a signal to the command's process
    raw()          whether the terminal is raw
    code()         waits for the command's end: its exit code, or minus the signal
The exit code is 1 where an expectation fails, and then the screen is printed.
"""
import fcntl, os, pty, select, signal, struct, sys, termios, time

PATIENCE = 120
seen = b""
at = 0


def size(rows, columns):
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def fail(why):
    print(why, "The terminal showed:", seen.decode(errors="replace"), sep="\n")
    os.kill(child, signal.SIGKILL)
    sys.exit(1)


def look(seconds):
    global seen
    if select.select([master], [], [], seconds)[0]:
        try:
            seen += os.read(master, 65536)
        except OSError:  # the other side is closed
            time.sleep(seconds)


def expect(text):
    global at
    until = time.monotonic() + PATIENCE
    while text.encode() not in seen[at:]:
        if time.monotonic() > until:
            fail("expected: %r" % text)
        look(0.05)
    at = seen.index(text.encode(), at) + len(text.encode())


def type(text):
    os.write(master, text.encode())


def kill(number):
    os.kill(child, number)


def raw():
    return not termios.tcgetattr(slave)[3] & termios.ICANON


def wait_for(what, condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            fail("waited in vain until " + what)
        look(0.05)


ended = None


def has_ended():
    global ended
    if ended is None:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid != 0:
            ended = os.waitstatus_to_exitcode(status)
    return ended is not None


def is_stopped():
    pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
    return pid != 0 and os.WIFSTOPPED(status)


def code():
    wait_for("it ends", has_ended)
    return ended


master, slave = pty.openpty()
size(30, 90)
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(slave, fd)
    os.closerange(3, 256)
    os.execvp(sys.argv[2], sys.argv[2:])
try:
    exec(sys.argv[1])
except AssertionError as e:
    import traceback
    traceback.print_exc(file=sys.stdout)
    fail("that is not so")
