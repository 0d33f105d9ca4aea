#include "unit.h"

#include "fake_machine.h"
#include "temp_tree.h"
#include "tool/doctor.h"
#include "tool/target.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

/* A machine on which nothing is missing: a fake machine, and a simulated root
 * directory with a /proc and a collectd (process 42). The runtime directory is
 * tree.root/run, which the process sees under the same path. */
struct place {
  struct fake_machine *fake;
  struct temp_tree tree;
  char proc[300], run[300];
  struct doctor doctor;
};
static struct place place;

#define MAPPED "7f02-7f03 r-xp 0 fd:00 2 /lib/percore.so\n"

/* Creates the process `pid` of a user who may count. */
static void add_collectd(const char *pid, const char *groups) {
  char path[100], text[200], link[400];
  snprintf(path, sizeof(path), "/proc/%s/comm", pid);
  temp_tree_write(&place.tree, path, "collectd\n");
  snprintf(path, sizeof(path), "/proc/%s/status", pid);
  snprintf(text, sizeof(text),
           "PPid:\t1\nUid:\t%u\t%u\t1\t1\nGid:\t4\t4\t4\t4\n"
           "Groups:\t27 %s \nCapEff:\t0000004000000000\n",
           geteuid(), geteuid(), groups);
  temp_tree_write(&place.tree, path, text);
  snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
  temp_tree_write(&place.tree, path, "/usr/sbin/collectd");
  snprintf(path, sizeof(path), "/proc/%s/maps", pid);
  temp_tree_write(&place.tree, path, MAPPED);
  snprintf(path, sizeof(path), "/proc/%s/environ", pid);
  snprintf(text, sizeof(text), "PERCORE_RUNTIME_DIR=%.150s", place.run);
  temp_tree_write(&place.tree, path, text);
  snprintf(link, sizeof(link), "%s/%s/root", place.proc, pid);
  assert_int_equal(symlink(place.tree.root, link), 0);
}

static void begin(void) {
  char path[400], group[16];
  place = (struct place){.fake = fake_machine_new(2)};
  temp_tree_make(&place.tree);
  snprintf(place.proc, sizeof(place.proc), "%s/proc", place.tree.root);
  snprintf(place.run, sizeof(place.run), "%s/run", place.tree.root);
  snprintf(group, sizeof(group), "%u", getegid());
  temp_tree_write(&place.tree, "/run/none", "");
  add_collectd("42", group);
  assert_int_equal(chmod(place.run, 03770), 0);
  snprintf(path, sizeof(path), "%s/none", place.tree.root);
  temp_tree_write(&place.tree, path, "");
  snprintf(path, sizeof(path), "%s%s/run", place.tree.root, place.tree.root);
  assert_int_equal(symlink(place.run, path), 0);
  setenv("PERCORE_RUNTIME_DIR", place.run, 1);
  place.doctor = (struct doctor){
      .machine = &place.fake->machine,
      .proc = place.proc,
      .width = 80,
      .cores_online = 2,
      .paranoid = 2,
      .group = (long)getegid(),
  };
  for (int source = 0; source < SOURCES; source++)
    place.doctor.source[source] =
        (struct source_facts){.is_available = true, .proof = PROOF_PROVEN};
  place.doctor.source[SOURCE_MPERF].chosen = 2;
}

static void end(void) {
  fake_machine_free(place.fake);
  temp_tree_remove(&place.tree);
}

static void run_checks(struct doctor *doctor) {
  doctor->missing = 0;
  doctor->last_group = NULL;
  check_sources(doctor);
  check_proc_stat(doctor);
  check_polling(doctor, 0);
  check_collectd(doctor);
  check_regions(doctor);
}

static char *text_of(void) {
  place.doctor.json = NULL;
  place.doctor.out = unit_open();
  run_checks(&place.doctor);
  return unit_close();
}

struct finding {
  char name[64], verdict[16], value[1024], advice[1024];
};

static struct finding found[64];
static size_t found_len;

static void copy(char *text, size_t size, yajl_val object, const char *key) {
  yajl_val value =
      yajl_tree_get(object, (const char *[]){key, NULL}, yajl_t_string);
  snprintf(text, size, "%s", value != NULL ? YAJL_GET_STRING(value) : "");
}

/* Runs the checks, and keeps their findings. */
static void examine(void) {
  FILE *file = unit_open();
  struct json *json = place.doctor.json = json_begin(file, "doctor");
  json_open_array(json, "findings");
  run_checks(&place.doctor);
  json_close_array(json);
  json_end(json);
  char *out = unit_close();
  yajl_val tree = yajl_tree_parse(out, NULL, 0);
  yajl_val list =
      yajl_tree_get(tree, (const char *[]){"findings", NULL}, yajl_t_array);
  assert_non_null(list);
  found_len = list->u.array.len;
  assert_true(found_len < sizeof(found) / sizeof(found[0]));
  for (size_t i = 0; i < found_len; i++) {
    yajl_val object = list->u.array.values[i];
    copy(found[i].name, sizeof(found[i].name), object, "name");
    copy(found[i].verdict, sizeof(found[i].verdict), object, "verdict");
    copy(found[i].value, sizeof(found[i].value), object, "value");
    copy(found[i].advice, sizeof(found[i].advice), object, "advice");
  }
  yajl_tree_free(tree);
}

static const struct finding *find(const char *name) {
  for (size_t i = 0; i < found_len; i++)
    if (strcmp(found[i].name, name) == 0)
      return &found[i];
  fail_msg("there is no finding %s", name);
  return NULL;
}

static void assert_verdict(const char *name, const char *verdict) {
  assert_string_equal(find(name)->verdict, verdict);
}

static void assert_advice(const char *name, const char *part) {
  assert_non_null(strstr(find(name)->advice, part));
}

static void assert_value(const char *name, const char *part) {
  assert_non_null(strstr(find(name)->value, part));
}

TEST(a_healthy_machine_needs_no_advice) {
  examine();
  for (size_t i = 0; i < found_len; i++) {
    assert_string_equal(found[i].advice, "");
    assert_string_equal(found[i].verdict, "ok");
  }
  assert_int_equal(place.doctor.missing, 0);
  assert_value("mperf", "proven, in use on 2 of 2 cores");
}

TEST(lxcfs_is_named_with_advice) {
  place.fake->lxcfs = true;
  examine();
  assert_value("/proc/stat", "LXCFS");
  assert_advice("/proc/stat", "SysRoot");
}

TEST(a_core_that_polls_when_idle_is_named_with_advice) {
  place.fake->cpuidle_states = 2;
  place.fake->cores[0].polled_ns = 4e9;
  place.fake->cores[0].halted_ns = 96e9;
  char *text = text_of();
  assert_null(strstr(text, "idle loop"));
  place.fake->cores[0].polled_ns = 24e9;
  examine();
  assert_value("idle loop", "core 0 polled for 20 %");
  assert_advice("idle loop", "cpu_dma_latency");
  fake_machine_file(place.fake, "/proc/cmdline", "ro idle=poll\n");
  examine();
  assert_value("idle loop", "100 %");
  assert_advice("idle loop", "without idle=poll");
}

TEST(everything_missing_is_reported_with_advice) {
  temp_tree_remove(&place.tree);
  place.doctor = (struct doctor){.machine = &place.fake->machine,
                                 .proc = place.proc,
                                 .cores_online = 2,
                                 .group = -1};
  examine();
  for (size_t i = 0; i < found_len; i++)
    if (strcmp(found[i].verdict, "ok") != 0)
      assert_string_not_equal(found[i].advice, "");
  assert_false(doctor_has_source(&place.doctor));
  assert_advice("running", "install collectd and collectd-plugin-percore");
  assert_verdict("directory", "missing");
  assert_advice("directory", "install -d -m 3770 -g percore");
  assert_advice("directory", "groupadd");
  temp_tree_make(&place.tree); /* for end() */
}

TEST(advice_does_not_use_a_runtime_directory_that_is_set_to_nothing) {
  setenv("PERCORE_RUNTIME_DIR", "", 1);
  assert_null(strstr(listing_advice(ENOENT), "$PERCORE_RUNTIME_DIR"));
  setenv("PERCORE_RUNTIME_DIR", "/nonexistent", 1);
  assert_non_null(strstr(listing_advice(ENOENT), "$PERCORE_RUNTIME_DIR"));
}

TEST(a_source_that_must_be_named_is_reported_as_such) {
  place.doctor.source[SOURCE_MPERF].chosen = 0;
  examine();
  assert_verdict("ref-cycles", "note");
  assert_advice("ref-cycles", "no source is used by default: choose one");
}

/* Leaves a file that is no region, and writes its path. */
static void leave_file(const char *name, char path[400]) {
  snprintf(path, 400, "%s/%s.0123456789abcdef", place.run, name);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  close(fd);
}

static struct statfs space = {.f_type = TMPFS_MAGIC};

int __wrap_statfs(const char *path, struct statfs *result);
int __wrap_statfs(const char *path, struct statfs *result) {
  (void)path;
  *result = space;
  return 0;
}

TEST(a_runtime_directory_on_a_disk_or_nearly_full_is_named_with_advice) {
  space = (struct statfs){.f_type = TMPFS_MAGIC,
                          .f_blocks = 100,
                          .f_bavail = 10,
                          .f_files = 100,
                          .f_ffree = 9};
  examine();
  assert_value("space", "9 of 100 files");
  assert_advice("space", "percore regions --clean");
  assert_int_equal(place.doctor.missing, 0);
  space = (struct statfs){.f_type = EXT4_SUPER_MAGIC};
  examine();
  assert_value("file system", "no tmpfs");
  assert_advice("file system", "tmpfs");
  space = (struct statfs){.f_type = TMPFS_MAGIC};
  examine();
  for (size_t i = 0; i < found_len; i++)
    assert_string_not_equal(found[i].name, "space");
}

TEST(an_unreadable_file_is_reported_with_reason_and_command) {
  char path[400];
  leave_file("old", path);
  examine();
  assert_string_equal(find("files")->value, "1; 0 can be read");
  assert_value("file", "old: ");
  assert_verdict("file", "missing");
  assert_advice("file", "percore regions");
  unlink(path);
}

TEST(what_is_wrong_with_a_source_is_what_the_engine_says) {
  struct source_facts *source = place.doctor.source;
  snprintf(source[SOURCE_BPF].reason, FACT_SIZE, "grant CAP_BPF");
  source[SOURCE_BPF].is_available = false;
  source[SOURCE_MPERF].proof = PROOF_TICK_SAMPLED;
  snprintf(source[SOURCE_MPERF].reason, FACT_SIZE, "boot without nohz=off");
  examine();
  assert_verdict("bpf", "note");
  assert_string_equal(find("bpf")->value, "unavailable");
  assert_string_equal(find("bpf")->advice, "grant CAP_BPF");
  assert_verdict("mperf", "note");
  assert_string_equal(find("mperf")->value,
                      "tick-sampled, in use on 2 of 2 cores");
  assert_string_equal(find("mperf")->advice, "boot without nohz=off");
}

static void set_ids(const char *path, unsigned real, unsigned effective) {
  char text[64];
  snprintf(text, sizeof(text), "PPid:\t1\nUid:\t%u\t%u\t1\t1\n", real,
           effective);
  temp_tree_write(&place.tree, path, text);
}

TEST(a_running_collectd_is_judged_by_its_own_rights) {
  set_ids("/proc/42/status", geteuid(), geteuid());
  examine();
  assert_advice("counters", "AmbientCapabilities=CAP_PERFMON");
  if (geteuid() != 0) {
    assert_advice("regions", "SupplementaryGroups=percore");
    assert_verdict("regions", "missing");
  }
  assert_verdict("counters", "note");
  /* Without a counter, nothing is lost. */
  for (int source = 0; source < SOURCES; source++)
    place.doctor.source[source].is_available = !source_is_counter(source);
  examine();
  for (size_t i = 0; i < found_len; i++)
    assert_string_not_equal(found[i].name, "counters");
}

/* Process 98 is a child of the collectd 42, process 77 is a collectd of its
 * own, and process 99 has ended, but its parent has not waited for it. */
TEST(every_running_collectd_is_reported) {
  temp_tree_write(&place.tree, "/proc/7/comm", "bash\n");
  temp_tree_write(&place.tree, "/proc/98/comm", "collectd\n");
  temp_tree_write(&place.tree, "/proc/98/status", "PPid:\t42\n");
  temp_tree_write(&place.tree, "/proc/99/comm", "collectd\n");
  set_ids("/proc/99/status", 0, 0);
  temp_tree_write(&place.tree, "/proc/99/cmdline", "");
  temp_tree_write(&place.tree, "/proc/77/comm", "collectd\n");
  set_ids("/proc/77/status", 0, 0);
  temp_tree_write(&place.tree, "/proc/77/cmdline", "collectd");
  temp_tree_write(&place.tree, "/proc/77/maps",
                  "7f00-7f01 r-xp 0 fd:00 1 /usr/sbin/c\n" MAPPED);
  char *out = text_of();
  assert_non_null(strstr(out, "pid 42, uid "));
  assert_non_null(strstr(out, "pid 77, uid 0"));
  assert_non_null(strstr(out, "pid 77 has loaded percore"));
  assert_null(strstr(out, "pid 98"));
  assert_null(strstr(out, "pid 99"));
}

TEST(a_collectd_that_has_not_loaded_percore_is_told_what_to_write) {
  temp_tree_write(&place.tree, "/proc/42/maps", "7f00-7f01 r-xp /usr/sbin/c\n");
  examine();
  assert_verdict("LoadPlugin", "missing");
  assert_string_equal(find("LoadPlugin")->value,
                      "pid 42 has not loaded percore");
  assert_advice("LoadPlugin", "'LoadPlugin percore'");
  assert_advice("LoadPlugin", "'collectd -T'");
}

TEST(advice_does_not_use_what_a_process_has_chosen) {
  char path[400];
  temp_tree_write(&place.tree, "/proc/42/maps", "7f00-7f01 r-xp /usr/sbin/c\n");
  snprintf(path, sizeof(path), "%s/42/cmdline", place.proc);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "collectd%c-f%c-C%c/home/eve.conf%c", 0, 0, 0, 0);
  fclose(file);
  char *out = text_of();
  assert_non_null(strstr(out, "has not loaded percore"));
  assert_null(strstr(out, "/home"));
}

TEST(what_may_not_be_seen_of_a_collectd_is_noted) {
  char path[400];
  snprintf(path, sizeof(path), "%s/42/maps", place.proc);
  unlink(path);
  snprintf(path, sizeof(path), "%s/42/root", place.proc);
  unlink(path);
  examine();
  assert_verdict("LoadPlugin", "note");
  assert_value("LoadPlugin", "pid 42: ");
  assert_advice("LoadPlugin", "as root");
  assert_int_equal(place.doctor.missing, 0);
}

/* Would be reported: it has not loaded percore, and sees other regions. */
static void make_worse(void) {
  char path[400];
  temp_tree_write(&place.tree, "/proc/42/maps", "7f00-7f01 r-xp /usr/sbin/c\n");
  snprintf(path, sizeof(path), "%s%s/run", place.tree.root, place.tree.root);
  unlink(path);
}

static void check_not_looked_at(void) {
  examine();
  assert_verdict("running", "note");
  assert_value("running", "pid 42 of user ");
  for (size_t i = 0; i < found_len; i++) {
    assert_string_not_equal(found[i].name, "LoadPlugin");
    assert_string_not_equal(found[i].name, "namespace");
  }
  assert_int_equal(place.doctor.missing, 0);
}

TEST(of_a_collectd_of_another_user_only_its_presence_is_told) {
  make_worse();
  set_ids("/proc/42/status", geteuid() + 1, geteuid() + 1);
  check_not_looked_at();
}

TEST(of_a_setuid_program_only_its_presence_is_told) {
  make_worse();
  set_ids("/proc/42/status", geteuid() + 1, 0);
  check_not_looked_at();
}

TEST(of_a_collectd_in_another_user_namespace_only_its_presence_is_told) {
  char path[400];
  make_worse();
  temp_tree_write(&place.tree, "/proc/42/ns/x", "");
  temp_tree_write(&place.tree, "/proc/self/ns/x", "");
  snprintf(path, sizeof(path), "%s/42/ns/user", place.proc);
  assert_int_equal(symlink("user:[2]", path), 0);
  snprintf(path, sizeof(path), "%s/self/ns/user", place.proc);
  assert_int_equal(symlink("user:[1]", path), 0);
  check_not_looked_at();
  unlink(path);
  assert_int_equal(symlink("user:[2]", path), 0);
  examine();
  assert_verdict("LoadPlugin", "missing");
}

TEST(a_crowd_of_others_hides_no_collectd) {
  char path[64];
  for (int pid = 100; pid < 120; pid++) {
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    temp_tree_write(&place.tree, path, "collectd\n");
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    set_ids(path, geteuid() + 1, geteuid() + 1);
    snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
    temp_tree_write(&place.tree, path, "collectd");
  }
  char *out = text_of();
  assert_non_null(strstr(out, "20 of others"));
  assert_non_null(strstr(out, "pid 42 has loaded percore"));
}

TEST(a_collectd_that_sees_another_runtime_directory_is_reported) {
  char path[400];
  snprintf(path, sizeof(path), "%s%s/run", place.tree.root, place.tree.root);
  unlink(path);
  examine();
  assert_verdict("namespace", "missing");
  assert_value("namespace", "pid 42 ");
}

TEST(the_runtime_directory_of_a_collectd_is_that_of_its_environment) {
  char path[400];
  snprintf(path, sizeof(path), "%s/42/environ", place.proc);
  for (int same = 0; same < 2; same++) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "A=1%cPERCORE_RUNTIME_DIR=%s%c", 0,
            same ? place.run : "/tmp/another", 0);
    fclose(file);
    examine();
    assert_int_equal(place.doctor.missing, !same);
    if (!same) {
      assert_value("namespace", "/tmp/another");
      assert_advice("namespace", "set PERCORE_RUNTIME_DIR");
    }
  }
}

TEST(an_unproven_source_is_noted_only_if_a_core_depends_on_it) {
  struct source_facts *source = place.doctor.source;
  source[SOURCE_IDLE].proof = PROOF_UNPROVEN;
  source[SOURCE_MPERF].chosen = 0;
  source[SOURCE_BPF].chosen = 2;
  examine();
  assert_verdict("idle", "ok");
  assert_value("idle", "unproven");
  source[SOURCE_BPF].chosen = 1;
  source[SOURCE_IDLE].chosen = 1;
  examine();
  assert_verdict("idle", "note");
}

/* Process 98 is a child of the collectd 42, process 77 is a collectd of its
 * own, and process 99 has ended, but its parent has not waited for it. */
TEST(a_second_collectd_without_percore_does_not_fail_the_host) {
  add_collectd("77", "27");
  temp_tree_write(&place.tree, "/proc/77/maps", "7f00-7f01 r-xp /usr/sbin/c\n");
  examine();
  assert_int_equal(place.doctor.missing, 0);
  /* If no collectd loads percore, the host does not report. */
  temp_tree_write(&place.tree, "/proc/42/maps", "7f00-7f01 r-xp /usr/sbin/c\n");
  examine();
  assert_true(place.doctor.missing > 0);
  assert_verdict("LoadPlugin", "missing");
}

static void stop_collectd(void) {
  temp_tree_write(&place.tree, "/proc/42/comm", "bash\n");
}

TEST(a_stopped_collectd_is_missing_and_can_be_tested) {
  stop_collectd();
  examine();
  assert_verdict("running", "missing");
  assert_advice("running", "install collectd");
  assert_advice("running", "collectd -T");
  assert_advice("running", "systemctl start collectd");
}

TEST(a_runtime_directory_of_another_group_is_missing) {
  place.doctor.group = 998;
  examine();
  assert_verdict("directory", "missing");
  assert_advice("directory", "chgrp percore");
  place.doctor.group = (long)getegid();
  assert_int_equal(chmod(place.run, 0755), 0);
  examine();
  assert_verdict("directory", "missing");
}

TEST(a_directory_that_every_user_may_list_is_noted) {
  assert_return_code(chmod(place.run, 03770), errno);
  examine();
  assert_verdict("directory", "ok");
  assert_return_code(chmod(place.run, 03775), errno);
  examine();
  assert_verdict("directory", "note");
  assert_advice("directory", "chmod 3770");
}

TEST(only_the_first_thing_to_do_is_printed_by_check) {
  stop_collectd();
  place.doctor.group = 998;
  place.doctor.first_only = true;
  place.doctor.out = unit_open();
  run_checks(&place.doctor);
  char *out = unit_close();
  assert_true(place.doctor.missing > 1);
  const char *first = strstr(out, "missing");
  assert_non_null(first);
  assert_null(strstr(first + 1, "missing"));
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
