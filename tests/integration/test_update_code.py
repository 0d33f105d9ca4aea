"""Tests the machine code of the update paths of percore.h, for each installed compiler
and each architecture: an add is a load, an add and a store, or one add to memory,
without a lock prefix, a call or a vector instruction. Also tests that wrong uses do not
compile or link."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "update_code.c")
CXX_SOURCE = os.path.join(HERE, "update_code.cc")
INCLUDE = os.path.join(HERE, "..", "..", "src")

# compiler, machine, disassembler
TARGETS = [
    (["gcc"], "x86-64", ["objdump"]),
    (["clang"], "x86-64", ["objdump"]),
    (["aarch64-linux-gnu-gcc"], "aarch64", ["aarch64-linux-gnu-objdump"]),
    (["clang", "--target=aarch64-linux-gnu"], "aarch64",
     ["aarch64-linux-gnu-objdump"]),
]
if os.uname().machine == "aarch64":
    TARGETS = [(["gcc"], "aarch64", ["objdump"]),
               (["clang"], "aarch64", ["objdump"])]

ATOMIC = {"x86-64": r"\block\b|\bxchg\b(?! +%ax,%ax)|\bmfence\b",
          "aarch64": r"\bldadd\w*|\bstadd\w*|\bldx\w+|\bstx\w+|\bcas\w*"
                     r"|\bldax\w*|\bstlx\w*|\bswp\w*"}
CALL = {"x86-64": r"\bcall", "aarch64": r"\bbl\b|\bblr\b"}
VECTOR = {"x86-64": r"[xyz]mm", "aarch64": r"\b[qvd]\d+\b"}
failures = []


class Skip(Exception):
    """Raised by a test that cannot run on this machine. The argument is the reason."""


def check(ok, what):
    if not ok:
        failures.append(what)
        print("#", what.replace("\n", "\n# "))


def proves(sentence, test, *arguments):
    """Runs a test, and prints its result and the sentence that it proves."""
    before = len(failures)
    try:
        test(*arguments)
    except Skip as reason:
        print(f"ok - {sentence} # SKIP {reason}")
        return
    except subprocess.CalledProcessError as error:
        check(False, str(error))
    result = "ok" if len(failures) == before else "not ok"
    print(f"{result} - {sentence}", flush=True)


def functions(compiler, objdump, level, directory, std="c11", source=SOURCE):
    obj = os.path.join(directory, "update.o")
    subprocess.run(compiler + ["-std=" + std, "-Wall", "-Wextra", "-Werror",
                               level, "-DPERCORE_BUILDING", "-I" + INCLUDE,
                               "-c", source, "-o", obj], check=True)
    text = subprocess.run(objdump + ["-d", "--no-show-raw-insn", obj],
                          check=True, capture_output=True, text=True).stdout
    found, name = {}, None
    for line in text.splitlines():
        start = re.match(r"[0-9a-f]+ <([\w.]+)>:", line)
        if start:
            name = start.group(1)
            found[name] = []
        elif name and ":\t" in line:
            found[name].append(line.split(":\t", 1)[1].strip())
    return found


def loads_and_stores(code, machine):
    if machine == "x86-64":
        memory = [i for i in code if "(%" in i
                  and not re.match(r"lea|.*nop", i)]
        adds = [i for i in memory
                if re.match(r"(add|inc|sub|dec)", i) and i.rstrip().endswith(")")]
        loads = [i for i in memory if i not in adds
                 and not re.search(r",\s*-?(0x)?[0-9a-f]*\(%\w+\)$", i)]
        stores = [i for i in memory if i not in adds and i not in loads]
        return len(loads) + len(adds), len(stores) + len(adds)
    return (sum(i.startswith("ldr") for i in code),
            sum(i.startswith("str") for i in code))


def check_target(compiler, machine, objdump, level, directory):
    where = "%s %s %s" % (" ".join(compiler), machine, level)
    code = functions(compiler, objdump, level, directory)
    plain = [f for f in code if f != "shared_add"]
    for name in plain:
        text = "\n".join(code[name])
        for what, pattern in (("an atomic read-modify-write", ATOMIC),
                              ("a call", CALL), ("a vector", VECTOR)):
            check(not re.search(pattern[machine], text),
                  "%s: %s has %s:\n%s" % (where, name, what, text))
    check(re.search(ATOMIC[machine] + r"|\bbl\b", "\n".join(code["shared_add"])),
          where + ": shared_add is not atomic")
    for name, count in (("core_add", 1), ("core_add_one", 1),
                        ("core_add_four", 4), ("core_updown", 1)):
        loads, stores = loads_and_stores(code[name], machine)
        check((loads, stores) == (count, count),
              "%s: %s has %d loads and %d stores:\n%s"
              % (where, name, loads, stores, "\n".join(code[name])))
    if machine == "aarch64":
        check_section_on_aarch64(where, code["section"])


def check_section_on_aarch64(where, code):
    """Checks that a section begins with a plain store of the odd sequence number and a
    barrier, and ends with a store-release of the even sequence number. A store-release
    of the odd number would not be ordered before the stores of the data."""
    kinds = []
    for line in code:
        for kind in ("stlr", "dmb", "str"):
            if line.startswith(kind):
                kinds.append(kind)
                break
    check(kinds == ["str", "dmb", "str", "str", "stlr"],
          "%s: section stores as %s" % (where, kinds))


def compiles(command, *flags):
    run = subprocess.run(command + ["-DPERCORE_BUILDING", "-I" + INCLUDE,
                                    "-fsyntax-only", *flags, SOURCE],
                         capture_output=True, text=True)
    return run.returncode == 0, run.stderr


# Together, these include the warnings with which haproxy, nginx, DPDK and memcached are
# compiled.
WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror", "-Wshadow",
            "-Wcast-qual", "-Wcast-align", "-Wpointer-arith", "-Wundef",
            "-Wwrite-strings", "-Wredundant-decls", "-Wformat-nonliteral",
            "-Wformat-security", "-Wtype-limits", "-Wnull-dereference",
            "-Wsign-compare", "-Wdeprecated", "-Wmissing-declarations"]
C_WARNINGS = WARNINGS + ["-Wdeclaration-after-statement", "-Wstrict-prototypes",
                         "-Wmissing-prototypes", "-Wold-style-definition",
                         "-Wnested-externs"]
CXX_WARNINGS = WARNINGS + ["-Wold-style-cast", "-Weffc++"]


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip("there is no " + program)


def check_language(compiler, language, std, warnings):
    need(compiler)
    command = [compiler, "-x", language, "-std=" + std, *warnings]
    for debug in ([], ["-DPERCORE_DEBUG"]):
        ok, said = compiles(command, "-DALL_VALUES", *debug)
        check(ok, f"{command} {debug}: {said}")
    wrongs = ["-DWRONG_MIX", "-DWRONG_MIX_SHARED"]
    if std != "c++98":
        wrongs += ["-DWRONG_FRACTION", "-DWRONG_SHARED_FRACTION"]
    for wrong in wrongs:
        check(not compiles(command, wrong)[0],
              f"{compiler} -std={std} compiles with {wrong}")


def check_languages(compiler, language, stds, warnings):
    for std in stds:
        check_language(compiler, language, std, warnings)


def check_sanitizer(compiler, directory):
    need(compiler)
    functions([compiler, "-fsanitize=thread"], ["objdump"], "-O2", directory)


def check_static(directory):
    """Links the archive with what pkg-config says without --static."""
    need("pkg-config")
    archive = os.path.join(os.getcwd(), "libpercore.a")
    if not os.path.exists(archive):
        raise Skip("libpercore.a was not built")
    said = subprocess.run(["pkg-config", "--libs", "percore"], check=True, text=True,
                          capture_output=True,
                          env={**os.environ, "PKG_CONFIG_PATH": "src/region"}).stdout
    flags = [flag for flag in said.split() if not flag.startswith("-L")]
    program = os.path.join(directory, "static.c")
    with open(program, "w") as file:
        file.write("#include <percore_load.h>\n#include <percore_tune.h>\n"
                   "int main(void) { struct percore_load *load;\n"
                   "return percore_load_open(&load, 0) && percore_destroy(0); }\n")
    subprocess.run(["gcc", "-I" + INCLUDE, program,
                    *(archive if flag == "-lpercore" else flag for flag in flags),
                    "-o", os.path.join(directory, "static")], check=True)


# ---------------------------------------------------------------------------
# percore.hpp


def without_addresses(code):
    """Returns the code without padding and without the addresses of jump targets."""
    return [re.sub(r"\b[0-9a-f]+ (?=<)", "", line) for line in code
            if not re.match(r"(data16 |cs )*nop|xchg +%ax,%ax", line)]


def check_same_as_c(c_compiler, cxx_compiler, directory):
    need(c_compiler, cxx_compiler, "objdump")
    for level in ("-O2", "-O3"):
        c_code = functions([c_compiler], ["objdump"], level, directory)
        for std in ("c++17", "c++20"):
            cxx_code = functions([cxx_compiler], ["objdump"], level, directory,
                                 std, CXX_SOURCE)
            for name, code in c_code.items():
                if name.endswith(".cold"):
                    continue  # it only jumps into the library
                check(without_addresses(cxx_code[name]) ==
                      without_addresses(code),
                      f"{cxx_compiler} {std} {level} {name}:\n"
                      + "\n".join(cxx_code[name]) + "\nin C:\n"
                      + "\n".join(code))


def check_objects(compiler, directory):
    need(compiler)
    library = os.path.join(os.getcwd(), ".libs")
    if not os.path.exists(os.path.join(library, "libpercore.so")):
        raise Skip("libpercore.so was not built in " + library)
    program = os.path.join(directory, "objects")
    for std in ("c++17", "c++20"):
        subprocess.run([compiler, "-std=" + std, *CXX_WARNINGS, "-DWITH_MAIN",
                        "-I" + INCLUDE, CXX_SOURCE, "-L" + library, "-lpercore",
                        "-pthread", "-Wl,-rpath," + library, "-o", program],
                       check=True)
        subprocess.run([program], check=True, timeout=60,
                       env={**os.environ, "PERCORE_RUNTIME_DIR": directory})


def check_abi(directory):
    """Checks that a program does not link if it is compiled with the header of a
    different ABI version."""
    with open(os.path.join(INCLUDE, "percore.h")) as file:
        text = file.read()
    with open(os.path.join(directory, "percore.h"), "w") as file:
        file.write(text.replace("percore_abi_1", "percore_abi_2"))
    program = os.path.join(directory, "main.c")
    with open(program, "w") as file:
        file.write("#include <percore.h>\n"
                   "int main(void) { return percore_row_remove(0, 0, 0, 0); }\n")
    library = os.path.join(os.getcwd(), ".libs")
    if not os.path.exists(os.path.join(library, "libpercore.so")):
        raise Skip("libpercore.so was not built in " + library)
    for include, links in ((INCLUDE, True), (directory, False)):
        for level in ("-O0", "-O2"):
            run = subprocess.run(
                ["gcc", level, "-I" + include, program, "-L" + library,
                 "-lpercore", "-o", os.path.join(directory, "main")],
                capture_output=True, text=True)
            check((run.returncode == 0) == links,
                  "linking with %s: %s" % (include, run.stderr))


def calls_of(header):
    """Returns the names of the calls of a header: functions, macros and updates. Names
    that end in _ are private."""
    with open(os.path.join(INCLUDE, header)) as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    text = text.replace("\\\n", " ")
    found = set(re.findall(r"^(?:[a-z][\w *\n]*[ *\n])?(percore_\w*[a-z])\(", text, re.M))
    found |= set(re.findall(r"^ *# *define (percore_\w*[a-z])\(", text, re.M))
    return found


def check_ceilings():
    """Checks how many calls an author has to know."""
    calls = {header: calls_of(header) for header in
             ("percore.h", "percore_tune.h", "percore_load.h", "percore_reader.h")}
    calls["percore_tune.h"] -= calls["percore.h"]
    check(10 < len(calls["percore.h"]) <= 14, f"{calls['percore.h']}")
    total = sum(len(names) for names in calls.values())
    check(40 < total <= 45, f"{total}: {calls}")


# What is wrong, and a part of the message.
MISTAKES = [
    ("percore_begin(row), percore_begin(row)", "sections do not nest"),
    ("percore_end(row)", "has not begun"),
    ("percore_table(none, 0)", "slot has not been attached"),
    ("percore_poll(none, 1, 0)", "slot has not been attached"),
    ("percore_quiescent(none)", "slot has not been attached"),
    ("percore_sleep(none)", "slot has not been attached"),
    ("percore_wake(none)", "slot has not been attached"),
    ("percore_table(slot, 9)", "the region has no table 9"),
    ("percore_table(slot, 3)", "it is SHARED: use percore_shared_row"),
    ("percore_row(no_table, 0)", "table has not been made"),
    ("percore_row(one, 9)", "no such row"),
    ("percore_add(no_row, 0, 1)", "no region has these cells"),
    ("percore_begin(no_row)", "row has not been made"),
    ("percore_observe(no_row, 2, 1)", "no region has these cells"),
    ("percore_add(row, PERCORE_MAX_COLUMNS, 1)", "no such cell"),
    ("percore_set(no_shared, 0, 1)", "handle has not been made"),
    ("percore_add(row, 40, 1)", "rows of table one have 38 columns, and this is column 40"),
    ("percore_add(percore_row(two, q0), 1, 1)", "rows of table two have 1 columns"),
    ("percore_observe(percore_row(two, q0), 2, 3)", "table two has no field 2"),
    ("percore_observe(row, 0, 3)", "field a of table one is no histogram"),
    ("percore_set(row, 0, 5)", "field a of table one counts, and is never set"),
    ("percore_add(row, 1, 5)", "field g of table one is a gauge or a state"),
    ("percore_set(percore_shared_row(region, 3, s0), 0, 5)", "is never set"),
    ("in_thread(add_in_slot)", "slot belongs to another thread"),
    ("in_thread(poll_slot)", "slot belongs to another thread"),
    ("percore_detach(slot), percore_add(row, 0, 1)", "slot has been detached"),
    ("percore_detach(slot), percore_begin(row)", "slot has been detached"),
    ("percore_detach(slot), percore_poll(slot, 1, 0)", "slot has been detached"),
    ("percore_row_remove(region, 1, q0, 0), percore_add(percore_row(two, q0), 0, 1)",
     "row 1 of table two has been removed"),
    ("percore_row_remove(region, 2, o0, PERCORE_NO_UPDATE_IN_FLIGHT),"
     " percore_begin(percore_row(owned, o0))", "row 1 of table owned has been removed"),
    ("in_thread(remove_row), percore_quiescent(slot),"
     " percore_add(percore_row(two, q0), 0, 1)",
     "row 1 of table two has been removed"),
    ("percore_add(percore_row(one, 7), 0, 1)", "table one has no row 7"),
    ("percore_destroy(region), percore_add(row, 0, 1)", "no region has these cells"),
    ("percore_destroy(region), percore_poll(slot, 1, 0)", "no region has this slot")]

DEBUG_PROGRAM = r"""
#include <percore_tune.h>
#include <pthread.h>
#include <stdlib.h>
static const struct percore_field fields[] = {
    {.name = "a"}, {.name = "g", .kind = PERCORE_GAUGE},
    {.name = "h", .kind = PERCORE_HISTOGRAM, .sub_bits = 2, .max_bits = 10}};
#define TABLE(called, stored, count) {.name = called, .storage = stored, \
    .fields = fields, .field_count = count, .max_rows = 8, .row_name_size = 24}
/* Rows of tables with gauges in slots are not removed. */
static const struct percore_table tables[] = {
    TABLE("one", PERCORE_PER_CORE, 3), TABLE("two", PERCORE_PER_CORE, 1),
    TABLE("owned", PERCORE_OWNED, 3), TABLE("shared", PERCORE_SHARED, 3)};
static struct percore_region *region;
static percore_slot_t slot;
percore_slot_t none;
static percore_table_t one, two, owned, no_table;
static percore_shared_row_t no_shared;
static percore_row_t row, no_row;
static uint32_t q0, o0, s0;
static void *add_in_slot(void *argument) {
  percore_add(percore_row(one, 1), 0, 1);
  return argument;
}
static void *poll_slot(void *argument) {
  percore_poll(slot, 1, 0);
  return argument;
}
static void *remove_row(void *argument) {
  percore_row_remove(region, 1, q0, 0);
  return argument;
}
static void in_thread(void *(*call)(void *)) {
  pthread_t thread;
  pthread_create(&thread, NULL, call, NULL);
  pthread_join(thread, NULL);
}
static void do_right(void) {
  percore_row_t mine = percore_row(owned, o0);
  percore_shared_row_t all = percore_shared_row(region, 3, s0);
  percore_begin(row);
  percore_add(row, 0, 1);
  percore_set(row, 1, -1);
  percore_observe(row, 2, 9);
  percore_end(row);
  percore_begin(mine);
  percore_add(mine, 0, 2);
  percore_end(mine);
  percore_shared_add(all, 0, 1);
  percore_set(all, 1, 1);
  percore_poll(slot, 1, 0);
  percore_poll(slot, 0, percore_tsc());
  percore_sleep(slot);
  percore_wake(slot);
  percore_quiescent(slot);
  percore_prefetch(row);
  /* sinks, and a row that was removed while the thread may use it */
  percore_add(percore_row(one, percore_row_add(region, 0, "", 0)), 0, 1);
  percore_row_t zeroed = percore_row(one, 0);
  percore_begin(zeroed), percore_add(zeroed, 0, 1), percore_end(zeroed);
  percore_slot_t no_slot = percore_attach(region, "", 9999);
  percore_row_t refused = percore_row(percore_table(no_slot, 0), 1);
  percore_add(refused, 0, 1);
  percore_poll(no_slot, 1, 0);
  percore_begin(refused); /* as other threads that were refused may have done */
  percore_begin(refused);
  percore_end(refused);
  percore_end(refused);
  percore_add(percore_row(percore_table(percore_attach(NULL, "", 0), 5), 5), 5, 1);
  in_thread(remove_row);
  percore_add(percore_row(two, q0), 0, 1);
  percore_add(percore_row(percore_table(percore_this_slot(region), 0), 1), 0, 1);
}
int main(int count, char **arguments) {
  struct percore_options options = {.quiet = 1};
  region = percore_create("debug", tables, 4, &options);
  slot = percore_attach(region, "main", PERCORE_NO_CORE);
  one = percore_table(slot, 0);
  two = percore_table(slot, 1);
  owned = percore_table(slot, 2);
  row = percore_row(one, percore_row_add(region, 0, "r0", 0));
  q0 = percore_row_add(region, 1, "q0", 0);
  o0 = percore_row_add(region, 2, "o0", 0);
  s0 = percore_row_add(region, 3, "s0", 0);
  (void)none, (void)no_table, (void)no_row, (void)no_shared;
  (void)poll_slot, (void)add_in_slot;
  switch (count > 1 ? atoi(arguments[1]) : -1) {
  default:
    do_right();
    break;
%s
  }
  return 0;
}
"""


def check_debug(directory):
    """Checks that, with PERCORE_DEBUG, a program aborts with a message if it uses a
    slot, table, row or section wrongly."""
    program = os.path.join(directory, "debug.c")
    run = os.path.join(directory, "debug")
    library = os.path.join(os.getcwd(), ".libs")
    if not os.path.exists(os.path.join(library, "libpercore.so")):
        raise Skip("libpercore.so was not built in " + library)
    cases = [f"  case {number}:\n    {wrong};\n    break;"
             for number, (wrong, _) in enumerate(MISTAKES)]
    text = DEBUG_PROGRAM % "\n".join(cases)
    with open(program, "w") as file:
        file.write(text)
    subprocess.run(["gcc", "-DPERCORE_DEBUG", "-O2", "-Wall", "-Wno-unused-value",
                    "-I" + INCLUDE, program, "-L" + library, "-lpercore", "-pthread",
                    "-Wl,-rpath," + library, "-o", run], check=True)
    lines = text.splitlines()
    for number, (wrong, message) in [(-1, ("", "")), *enumerate(MISTAKES)]:
        done = subprocess.run([run, str(number)], check=False, capture_output=True,
                              text=True, timeout=60,
                              env={**os.environ, "PERCORE_RUNTIME_DIR": directory})
        if number < 0:
            check(done.returncode == 0, f"what is right: {done.stderr}")
            continue
        check(done.returncode == -signal.SIGABRT and message in done.stderr,
              f"{wrong} ends with {done.returncode}: {done.stderr}")
        line = lines.index(f"  case {number}:") + 2
        check(f"debug.c:{line}: " in done.stderr or "in_thread" in wrong,
              f"{wrong}: {done.stderr}")


def check_compiler(compiler, machine, objdump, directory):
    need(compiler[0], objdump[0])
    for level in ("-O2", "-O3"):
        check_target(compiler, machine, objdump, level, directory)


def main():
    with tempfile.TemporaryDirectory() as directory:
        for compiler, machine, objdump in TARGETS:
            proves(f"{' '.join(compiler)} on {machine} compiles an add to a load, an "
                   "add and a store, without lock prefix, call or vector",
                   check_compiler, compiler, machine, objdump, directory)
        for compiler in ("gcc", "clang"):
            proves(f"{compiler} compiles the headers as C99 to C17 without a warning, "
                   "and refuses wrong kinds of rows and fractions", check_languages, compiler, "c",
                   ("c99", "gnu99", "c11", "c17"), C_WARNINGS)
        for c_compiler, compiler in (("gcc", "g++"), ("clang", "clang++")):
            proves(f"{compiler} compiles the headers as C++98 to C++23 without a "
                   "warning, and refuses wrong kinds of rows", check_languages,
                   compiler, "c++", ("c++98", "c++11", "c++14", "c++17", "c++20", "c++2b"),
                   CXX_WARNINGS)
            proves(f"percore.hpp compiles to the instructions of C with {compiler}",
                   check_same_as_c, c_compiler, compiler, directory)
            proves(f"objects of percore.hpp work, and {compiler} gives no warning",
                   check_objects, compiler, directory)
        proves("with PERCORE_DEBUG, a wrong slot, table, row or section aborts",
               check_debug, directory)
        for compiler in ("gcc", "clang"):
            proves(f"{compiler} -fsanitize=thread compiles updates without a warning",
                   check_sanitizer, compiler, directory)
        proves("a program links with the archive as pkg-config says", check_static,
               directory)
        proves("percore.h has at most 14 calls, and all headers have at most 45",
               check_ceilings)
        proves("a program with the header of another ABI does not link",
               check_abi, directory)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
