/* Fuzz target: what programs that poll answer. The first byte chooses the
 * program, and whether it tells percents. Whatever it answers, twice, the share
 * of a thread is unknown or from 0 to 1, and its core exists. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/core_set.h"
#include "poller/poller.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  struct poller_server server = {.is_dpdk = data[0] % 2 == 0,
                                 .is_percent = data[0] / 2 % 2 == 1};
  char *text = malloc(size);
  for (int i = 0; i < 2; i++) {
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    poller_answer_take(&server, text);
  }
  for (size_t i = 0; i < server.len; i++) {
    double share = server.threads[i].share;
    if (!isnan(share) && !(share >= 0 && share <= 1))
      abort();
    if (server.threads[i].core < -1 || server.threads[i].core >= CORES_MAX)
      abort();
  }
  free(text);
  return 0;
}
