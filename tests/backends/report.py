"""Lines that contrib/check counts: `ok - sentence`, `not ok - sentence`, and
`ok - sentence # SKIP reason`."""
import contextlib
import sys
import traceback

failed = skipped = passed = 0
stage = ''  # precedes each sentence: 'NAME: '


def _say(line):
    print(line, flush=True)


def ok(sentence):
    global passed
    passed += 1
    _say(f'ok - {stage}{sentence}')


def not_ok(sentence, why=''):
    global failed
    failed += 1
    _say(f'not ok - {stage}{sentence}')
    for line in str(why).splitlines()[:30]:
        _say(f'#   {line}')


def skip(sentence, reason):
    global skipped
    skipped += 1
    _say(f'ok - {stage}{sentence} # SKIP {reason}')


def note(text):
    _say(f'# {text}')


@contextlib.contextmanager
def proves(sentence):
    """Prints `ok` after its `with` block, or `not ok` if the block raises an
    exception."""
    try:
        yield
    except AssertionError as error:
        not_ok(sentence, error)
    except Exception:
        not_ok(sentence, traceback.format_exc())
    else:
        ok(sentence)


def exit_status():
    if failed:
        return 1
    return 0 if passed else 77


def finish():
    note(f'{passed} passed, {failed} failed, {skipped} skipped')
    sys.exit(exit_status())
