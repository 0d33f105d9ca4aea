# Each included file lists the fuzz targets of one folder of src/.
include tests/fuzz/cycles.mk
include tests/fuzz/map.mk
include tests/fuzz/region.mk
EXTRA_DIST += tests/fuzz/README tests/fuzz/run
