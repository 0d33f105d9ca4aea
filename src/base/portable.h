/* portable: what percore uses and older kernel headers or C libraries lack. */
#ifndef PERCORE_BASE_PORTABLE_H
#define PERCORE_BASE_PORTABLE_H

#include <linux/btf.h>

/* Linux 5.16 and 6.0; enumerators, which #ifdef does not see */
#define BTF_KIND_DECL_TAG 17
#define BTF_KIND_ENUM64 19

#endif
