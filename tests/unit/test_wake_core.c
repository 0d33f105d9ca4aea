/* Tests running functions on a given core. A function that does not return
 * simulates a core that real-time tasks keep busy. */
#include "wake/core.h"

#include "unit.h"

#include <semaphore.h>

static sem_t is_over;
static int asked;

static int say_core(void *context) {
  *(int *)context = sched_getcpu();
  return 0;
}

static int wait_for_end(void *context) {
  (void)context;
  while (sem_wait(&is_over) != 0)
    continue;
  return 0;
}

static bool always(void *context) {
  (void)context;
  return true;
}

static bool ends_at_second_look(void *context) {
  (void)context;
  if (++asked < 2)
    return true;
  sem_post(&is_over);
  return false;
}

/* Returns the number of a core on which this process may run. */
static int some_core(void) { return sched_getcpu(); }

TEST(a_function_runs_on_the_core) {
  char why[WHY_SIZE] = "";
  int core = some_core(), ran_on = -1;
  assert_int_equal(wake_core_run(core, say_core, always, &ran_on, why), 0);
  assert_int_equal(ran_on, core);
  assert_string_equal(why, "");
}

TEST(waiting_for_a_busy_core_ends_as_soon_as_it_must) {
  char why[WHY_SIZE] = "";
  sem_init(&is_over, 0, 0);
  asked = 0;
  assert_int_equal(
      wake_core_run(some_core(), wait_for_end, ends_at_second_look, NULL, why),
      -EINTR);
  assert_int_equal(asked, 2);
  sem_destroy(&is_over);
}

TEST(a_core_that_does_not_exist_is_refused) {
  char why[WHY_SIZE] = "";
  int ran_on = -1;
  assert_int_equal(wake_core_run(8191, say_core, always, &ran_on, why),
                   -EINVAL);
  assert_non_null(strstr(why, "cannot run on core 8191"));
  assert_int_equal(ran_on, -1);
}
