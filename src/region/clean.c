/* clean.c: removes the files that processes have left. Readers remove none: who
 * can write to a file can hold the lock of its inode for ever, for which
 * unlink(2) waits while it holds the lock of the directory. */
#include "percore_config.h"

#include "file.h"

#include "base/cancellation.h"
#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Files that one call looks at; how many dead ones of a name may stay; how long
 * they stay after they were found dead, in seconds. The mode of a file notes
 * that it was, and the time of its change when. */
enum { LOOKS = 64, KEPT = 64, WAIT_S = 60, NOTED = S_IXUSR };

struct dead {
  char name[NAME_MAX + 1];
  time_t made_s, noted_s; /* CLOCK_REALTIME; 0: not noted before */
};

/* True if nobody counts in the file. A name that begins with a dot is that of a
 * file whose producer has not finished it. If it has not for a minute, it never
 * will. */
static bool is_dead(int fd, const char *name, const struct stat *status) {
  struct region_header header;
  if (name[0] == '.')
    return time(NULL) - status->st_mtim.tv_sec >= WAIT_S;
  return pread(fd, &header, sizeof(header), 0) == sizeof(header) &&
         memcmp(header.magic, REGION_MAGIC, sizeof(header.magic)) == 0 &&
         region_file_is_over(fd, &header, header.ended);
}

/* The lock cannot be had while a producer has it. */
int region_file_remove(int dir, const char *name) {
  enum { FLAGS = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  struct stat status, named;
  NOT_CANCELLED;
  int fd = openat(dir, name, FLAGS), rc = -1;
  if (fd < 0)
    return -1;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    if (!is_dead(fd, name, &status) || fcntl(fd, F_OFD_SETLK, &lock) != 0)
      rc = 0;
    else if (fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
             named.st_ino == status.st_ino && named.st_dev == status.st_dev &&
             unlinkat(dir, name, 0) == 0)
      rc = 1;
  }
  int error = errno;
  close(fd);
  errno = error;
  return rc;
}

static bool is_of_region(const char *file, const char *region) {
  struct region_title title;
  file += file[0] == '.';
  return region_title_split(&title, file, region_title_length(file)) &&
         strcmp(title.region, region) == 0;
}

/* Looks at a file, and notes that it is dead. Returns false if it is not, or is
 * another user's. */
static bool look(int dir, const char *name, struct dead *dead) {
  struct region_file file;
  struct region_fault fault;
  struct stat status;
  if (region_file_open(&file, dir, name, &fault) != 0)
    return false;
  bool is = file.owner == geteuid() && fstat(file.fd, &status) == 0 &&
            is_dead(file.fd, name, &status);
  if (is) {
    bool is_noted = (status.st_mode & NOTED) != 0 || name[0] == '.';
    strcpy(dead->name, name);
    dead->made_s = status.st_mtim.tv_sec;
    dead->noted_s = !is_noted        ? 0
                    : name[0] == '.' ? status.st_mtim.tv_sec
                                     : status.st_ctim.tv_sec;
    if (!is_noted)
      (void)fchmod(file.fd, (status.st_mode & 0777) | NOTED);
  }
  region_file_close(&file);
  return is;
}

static int compare_age(const void *a, const void *b) {
  time_t left = ((const struct dead *)a)->made_s,
         right = ((const struct dead *)b)->made_s;
  return (left > right) - (left < right);
}

static void remove_dead(int dir, struct dead *all, unsigned count,
                        unsigned excess) {
  time_t now_s = time(NULL);
  qsort(all, count, sizeof(*all), compare_age);
  for (unsigned i = 0; i < count; i++)
    if (i < excess || (all[i].noted_s != 0 && now_s - all[i].noted_s >= WAIT_S))
      (void)region_file_remove(dir, all[i].name);
}

static unsigned count_files(DIR *files, const char *region) {
  unsigned count = 0;
  for (struct dirent *entry; (entry = readdir(files)) != NULL;)
    count += is_of_region(entry->d_name, region);
  rewinddir(files);
  return count;
}

/* Looks at neighbours in the directory, from a place that differs at each call.
 * As many of the other files are taken to be dead in proportion. */
void region_files_clean(const char *dir, const char *region) {
  DIR *files = opendir(dir);
  struct dead *all = calloc(LOOKS, sizeof(*all));
  unsigned count = files != NULL ? count_files(files, region) : 0;
  unsigned number = 0, looked = 0, dead = 0;
  unsigned first =
      count > LOOKS
          ? (unsigned)(clock_now_ns(CLOCK_MONOTONIC) % (count - LOOKS + 1))
          : 0;
  for (struct dirent *entry; files != NULL && all != NULL && looked < LOOKS &&
                             (entry = readdir(files)) != NULL;)
    if (is_of_region(entry->d_name, region) && number++ >= first) {
      looked++;
      dead += look(dirfd(files), entry->d_name, &all[dead]);
    }
  if (dead > 0) {
    uint64_t in_all = (uint64_t)dead * count / looked;
    remove_dead(dirfd(files), all, dead,
                in_all > KEPT ? (unsigned)(in_all - KEPT) : 0);
  }
  free(all);
  if (files != NULL)
    closedir(files);
}
