# One list of unit tests for each folder of src/.
include tests/unit/board.mk
include tests/unit/cycles.mk
include tests/unit/map.mk
include tests/unit/wake.mk
include tests/unit/plugin.mk
include tests/unit/region.mk
include tests/unit/tool.mk
include tests/unit/plugin_region.mk
include tests/unit/region_command.mk
