/* Tests a program that has used up the keys of thread-specific data before it
 * loads the library. */
#include "percore_config.h"

#include <limits.h>
#include <pthread.h>

#include "region_unit.h"

static pthread_key_t keys[PTHREAD_KEYS_MAX];
static size_t keys_len;

/* Before the constructors of the library. */
static __attribute__((constructor(101))) void use_up_keys(void) {
  while (keys_len < PTHREAD_KEYS_MAX &&
         pthread_key_create(&keys[keys_len], NULL) == 0)
    keys_len++;
}

REGION_TEST(a_thread_whose_end_nobody_would_notice_does_not_attach) {
  percore_slot_t slot;
  assert_true(keys_len > 0);
  assert_fails(attach_thread(region, "unit", 0, &slot), ENOMEM);
  for (size_t i = 0; i < keys_len; i++)
    assert_null(pthread_getspecific(keys[i]));
}

const struct unit_fixtures unit_fixtures = {
    .before_all = unit_make_runtime_dir, .after_all = unit_remove_runtime_dir};
