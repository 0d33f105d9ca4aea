/* Tests the names of fields and rows of BPF maps, made from correct and
 * malformed type information (BTF), which the tests write themselves. */
#include "map/feed.h"
#include "map/fields.h"
#include "map/keys.h"
#include "region/layout.h"

#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------
 * Writing BTF
 */

static struct {
  uint32_t types[4096];
  size_t types_len; /* in words */
  char strings[4096];
  size_t strings_len;
  uint32_t last; /* ID of the last type */
} file;

static struct btf_types types;
static struct bpf_map_info info;
static struct map_fields fields;
static char why[WHY_SIZE];
static uint32_t u8, u16, u32, u64; /* IDs of types that every file contains */

static uint32_t text(const char *string) {
  if (string[0] == '\0')
    return 0;
  size_t at = file.strings_len;
  file.strings_len += strlen(string) + 1;
  assert_true(file.strings_len <= sizeof(file.strings));
  memcpy(file.strings + at, string, strlen(string) + 1);
  return (uint32_t)at;
}

static void word(uint32_t value) {
  assert_true(file.types_len < sizeof(file.types) / sizeof(file.types[0]));
  file.types[file.types_len++] = value;
}

static uint32_t type(uint32_t kind, const char *name, uint32_t members,
                     uint32_t size_or_type) {
  word(text(name));
  word(kind << 24 | members);
  word(size_or_type);
  return ++file.last;
}

static uint32_t integer(const char *name, uint32_t size, uint32_t encoding) {
  uint32_t id = type(BTF_KIND_INT, name, 0, size);
  word(encoding << 24 | size * 8);
  return id;
}

static uint32_t array(uint32_t of, uint32_t index, uint32_t elements) {
  uint32_t id = type(BTF_KIND_ARRAY, "", 0, 0);
  word(of);
  word(index);
  word(elements);
  return id;
}

/* Adds a member to the structure that type(BTF_KIND_STRUCT) has just begun. */
static void member(const char *name, uint32_t id, uint32_t offset) {
  word(text(name));
  word(id);
  word(offset * 8);
}

static void tag(const char *name, uint32_t id, int component) {
  type(BTF_KIND_DECL_TAG, name, 0, id);
  word((uint32_t)component);
}

static void declare_map(uint32_t key, uint32_t key_size, uint32_t value,
                        uint32_t value_size) {
  info = (struct bpf_map_info){.type = BPF_MAP_TYPE_ARRAY,
                               .key_size = key_size,
                               .value_size = value_size,
                               .max_entries = 4,
                               .btf_id = 1,
                               .btf_key_type_id = key,
                               .btf_value_type_id = value,
                               .name = "test"};
}

static char path[32];

static void write_file(void) {
  struct btf_header header = {.magic = BTF_MAGIC,
                              .version = 1,
                              .hdr_len = sizeof(header),
                              .type_len = (uint32_t)file.types_len * 4,
                              .str_off = (uint32_t)file.types_len * 4,
                              .str_len = (uint32_t)file.strings_len};
  strcpy(path, "/tmp/percore-btf-XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  FILE *out = fdopen(fd, "w");
  fwrite(&header, sizeof(header), 1, out);
  fwrite(file.types, 4, file.types_len, out);
  fwrite(file.strings, 1, file.strings_len, out);
  fclose(out);
}

/* Loads the types from the file that was written, in place of the kernel. */
int __wrap_btf_open(struct btf_types *into, const struct bpf_map_info *map,
                    char reason[WHY_SIZE]);
int __wrap_btf_open(struct btf_types *into, const struct bpf_map_info *map,
                    char reason[WHY_SIZE]) {
  struct btf *(*parse)(const char *path, void *extensions);
  void *library = dlopen("libbpf.so.1", RTLD_NOW);
  void *symbol = library != NULL ? dlsym(library, "btf__parse") : NULL;
  reason[0] = '\0';
  if (symbol == NULL) {
    print_message("libbpf.so.1 is not installed\n");
    skip();
  }
  memcpy(&parse, &symbol, sizeof(parse));
  write_file();
  struct btf *btf = parse(path, NULL);
  int error = errno;
  unlink(path);
  return btf != NULL
             ? btf_take(into, btf, map->btf_key_type_id, map->btf_value_type_id)
             : -error;
}

static int open_types(uint32_t key, uint32_t key_size, uint32_t value,
                      uint32_t value_size) {
  declare_map(key, key_size, value, value_size);
  return __wrap_btf_open(&types, &info, why);
}

/* Reads the fields of a map with integer keys. Returns the status. */
static int read_fields(uint32_t value, uint32_t size) {
  assert_int_equal(open_types(u32, 4, value, size), 0);
  return map_fields_read(&fields, &types, &info, why);
}

static void begin(void) {
  memset(&file, 0, sizeof(file));
  file.strings_len = 1;
  u8 = integer("u8", 1, 0);
  u16 = integer("u16", 2, 0);
  u32 = integer("u32", 4, 0);
  u64 = integer("u64", 8, 0);
}

static void end(void) {
  map_fields_free(&fields);
  btf_close(&types);
}

static void assert_field(size_t at, const char *name, uint32_t offset,
                         uint8_t size, bool is_gauge) {
  assert_true(at < fields.len);
  assert_string_equal(fields.list[at].name, name);
  assert_int_equal(fields.list[at].offset, offset);
  assert_int_equal(fields.list[at].size, size);
  assert_int_equal(fields.list[at].is_gauge, is_gauge);
}

/* ---------------------------------------------------------------------------
 * Fields
 */

TEST(members_are_fields_and_tags_say_what_types_cannot) {
  uint32_t s64 = integer("s64", 8, BTF_INT_SIGNED);
  uint32_t drops = array(u64, u32, 2);
  uint32_t inner = type(BTF_KIND_STRUCT, "inner", 1, 8);
  member("Bytes", u64, 0);
  uint32_t value = type(BTF_KIND_STRUCT, "value", 7, 64);
  member("rx", inner, 0);
  member("queued", u32, 8);
  member("pad", u32, 12);
  member("balance", s64, 16);
  member("drops", drops, 24);
  member("_hidden", u64, 40);
  member("signed_count", s64, 48);
  tag("percore:gauge", value, 1);
  tag("percore:help=packets in the queue", value, 1);
  tag("percore:counter", value, 6);
  assert_int_equal(read_fields(value, 64), 0);
  assert_string_equal(why, "");
  assert_int_equal(fields.len, 6);
  assert_field(0, "rx_bytes", 0, 8, false);
  assert_field(1, "queued", 8, 4, true);
  assert_string_equal(fields.list[1].help, "packets in the queue");
  assert_field(2, "balance", 16, 8, true);
  assert_field(3, "drops_0", 24, 8, false);
  assert_field(4, "drops_1", 32, 8, false);
  assert_field(5, "signed_count", 48, 8, false);
}

TEST(help_is_text_that_a_region_may_have) {
  char help[160] = "percore:help=a\tb";
  while (strlen(help) < 158)
    strcat(help, "\xc3\xa9");
  uint32_t value = type(BTF_KIND_STRUCT, "value", 1, 8);
  member("packets", u64, 0);
  tag(help, value, 0);
  assert_int_equal(read_fields(value, 8), 0);
  assert_memory_equal(fields.list[0].help, "a_b\xc3\xa9", 5);
  assert_true(region_text_is_valid(fields.list[0].help));
}

TEST(a_plain_integer_is_the_field_value) {
  assert_int_equal(read_fields(u64, 8), 0);
  assert_int_equal(fields.len, 1);
  assert_field(0, "value", 0, 8, false);
}

TEST(of_a_union_the_first_member_is_taken) {
  uint32_t both = type(BTF_KIND_UNION, "", 2, 8);
  member("packets", u64, 0);
  member("rx_packets", u64, 0);
  uint32_t value = type(BTF_KIND_STRUCT, "value", 1, 8);
  member("", both, 0);
  assert_int_equal(read_fields(value, 8), 0);
  assert_int_equal(fields.len, 1);
  assert_field(0, "packets", 0, 8, false);
}

TEST(fields_of_one_name_are_left_out_and_said) {
  uint32_t value = type(BTF_KIND_STRUCT, "value", 3, 24);
  member("Drops", u64, 0);
  member("drops", u64, 8);
  member("packets", u64, 16);
  assert_int_equal(read_fields(value, 24), 0);
  assert_int_equal(fields.len, 1);
  assert_field(0, "packets", 16, 8, false);
  assert_non_null(strstr(why, "drops"));
}

TEST(members_beyond_the_value_are_no_fields) {
  uint32_t value = type(BTF_KIND_STRUCT, "value", 3, 16);
  member("packets", u64, 0);
  member("across", u64, 12);
  member("beyond", u64, 1 << 20);
  assert_int_equal(read_fields(value, 16), 0);
  assert_int_equal(fields.len, 1);
}

TEST(pointers_locks_and_timers_are_no_fields) {
  uint32_t u64 = integer("u64", 8, 0), u32 = integer("u32", 4, 0);
  uint32_t pointer = type(BTF_KIND_PTR, "", 0, u64),
           lock = type(BTF_KIND_STRUCT, "bpf_spin_lock", 1, 4);
  member("val", u32, 0);
  uint32_t timer = type(BTF_KIND_STRUCT, "bpf_timer", 1, 16);
  member("__opaque", u64, 0);
  uint32_t ratio = type(BTF_KIND_FLOAT, "double", 0, 8);
  uint32_t value = type(BTF_KIND_STRUCT, "value", 5, 48);
  member("next", pointer, 0);
  member("lock", lock, 8);
  member("timer", timer, 16);
  member("ratio", ratio, 32);
  member("packets", u64, 40);
  assert_int_equal(open_types(u32, 4, value, 48), 0);
  assert_int_equal(map_fields_read(&fields, &types, &info, why), 0);
  assert_int_equal(fields.len, 1);
  assert_field(0, "packets", 40, 8, false);
}

TEST(elements_of_an_array_that_is_too_long_must_be_named) {
  uint32_t drops = array(u64, u32, 300);
  uint32_t value = type(BTF_KIND_STRUCT, "value", 1, 8 * 300);
  member("drops", drops, 0);
  assert_int_equal(read_fields(value, 8 * 300), -ENOENT);
  assert_non_null(strstr(why, "array of at most 256"));
  assert_non_null(strstr(why, "FieldAt"));
}

TEST(slots_of_powers_of_two_are_a_histogram_after_all_fields) {
  uint32_t slots = array(u32, u32, 27), runs = array(u64, u32, 3);
  uint32_t hist = type(BTF_KIND_STRUCT, "hist", 2, 112);
  member("slots", slots, 0);
  member("packets", u32, 108);
  uint32_t value = type(BTF_KIND_STRUCT, "value", 3, 144);
  member("latency", hist, 0);
  member("sizes", runs, 112);
  member("bytes", u64, 136);
  tag("percore:log2", value, 1);
  assert_int_equal(read_fields(value, 144), 0);
  assert_int_equal(fields.len, 2 + 27 + 3);
  assert_field(0, "latency_packets", 108, 4, false);
  assert_field(1, "bytes", 136, 8, false);
  for (size_t i = 0; i < 27; i++) {
    assert_field(2 + i, "latency_slots", 4 * (uint32_t)i, 4, false);
    assert_int_equal(fields.list[2 + i].bucket, i + 1);
    assert_int_equal(fields.list[2 + i].buckets, 27);
  }
  assert_field(29, "sizes", 112, 8, false);
  assert_int_equal(fields.list[31].bucket, 3);
}

TEST(types_that_contain_themselves_come_to_an_end) {
  uint32_t value = type(BTF_KIND_STRUCT, "value", 2, 16);
  member("again", value, 0);
  member("and_again", value, 0);
  assert_int_equal(read_fields(value, 16), -ENOENT);
}

TEST(arrays_of_arrays_come_to_an_end) {
  uint32_t many = array(array(array(u16, u32, 256), u32, 256), u32, 256);
  uint32_t value = type(BTF_KIND_STRUCT, "value", 2, 64);
  member("many", many, 0);
  member("packets", u32, 0);
  assert_int_equal(read_fields(value, 64), 0);
  assert_int_equal(fields.len, 33); /* 32 elements fit into 64 bytes */
}

/* ---------------------------------------------------------------------------
 * Which fields are read
 */

/* Reads the fields of a map from the file, as a publisher does. */
static int learn(struct map_feed *feed, struct names wanted,
                 struct names gauges) {
  *feed = (struct map_feed){.table = {.fields = wanted, .gauges = gauges},
                            .map = {.info = info}};
  int status = map_feed_learn(feed, why);
  fields = feed->fields;
  types = feed->types;
  return status;
}

TEST(fields_are_chosen_and_made_gauges_by_their_names) {
  static const char *wanted[] = {"queued", "packets"}, *gauges[] = {"queued"};
  struct map_feed feed;
  uint32_t u64 = integer("u64", 8, 0), u32 = integer("u32", 4, 0);
  uint32_t value = type(BTF_KIND_STRUCT, "value", 3, 24);
  member("packets", u64, 0);
  member("bytes", u64, 8);
  member("queued", u64, 16);
  declare_map(u32, 4, value, 24);
  assert_int_equal(
      learn(&feed, (struct names){wanted, 2}, (struct names){gauges, 1}), 0);
  assert_int_equal(fields.len, 2);
  assert_field(0, "packets", 0, 8, false);
  assert_field(1, "queued", 16, 8, true);
}

/* Writes the global variables hits, seed and tagged, which lie in the section
 * .bss. Their map is named after the section. */
static void write_variables(void) {
  static const char *const names[] = {"hits", "seed", "tagged"};
  uint32_t u64 = integer("u64", 8, 0), variables[3];
  for (int i = 0; i < 3; i++) {
    variables[i] = type(BTF_KIND_VAR, names[i], 0, u64);
    word(1);
  }
  uint32_t section = type(BTF_KIND_DATASEC, ".bss", 3, 24);
  for (uint32_t i = 0; i < 3; i++) {
    word(variables[i]);
    word(8 * i);
    word(8);
  }
  tag("percore:counter", variables[2], -1);
  info = (struct bpf_map_info){.type = BPF_MAP_TYPE_ARRAY,
                               .key_size = 4,
                               .value_size = 24,
                               .max_entries = 1,
                               .btf_id = 1,
                               .btf_value_type_id = section,
                               .name = "test.bss"};
}

TEST(of_global_variables_only_tagged_and_named_ones_are_read) {
  static const char *wanted[] = {"hits"};
  static const struct names none;
  struct map_feed feed;
  write_variables();
  assert_int_equal(learn(&feed, none, none), 0);
  assert_int_equal(fields.len, 1);
  assert_field(0, "tagged", 16, 8, false);
  end();
  assert_int_equal(learn(&feed, (struct names){wanted, 1}, none), 0);
  assert_int_equal(fields.len, 1);
  assert_field(0, "hits", 0, 8, false);
}

TEST(what_a_program_keeps_in_network_order_is_no_counter) {
  uint32_t be16 = type(BTF_KIND_TYPEDEF, "__be16", 0, u16),
           be32 = type(BTF_KIND_TYPEDEF, "__be32", 0, u32),
           be64 = type(BTF_KIND_TYPEDEF, "__be64", 0, u64);
  uint32_t peers = array(be32, u32, 2);
  uint32_t value = type(BTF_KIND_STRUCT, "value", 5, 40);
  member("teid", be32, 0);
  member("port", be16, 4);
  member("session", be64, 8);
  member("peers", peers, 16);
  member("packets", u64, 24);
  tag("percore:counter", value, 0);
  assert_int_equal(read_fields(value, 40), 0);
  assert_int_equal(fields.len, 1);
  assert_field(0, "packets", 24, 8, false);
}

/* ---------------------------------------------------------------------------
 * Keys
 */

static void assert_name_in(enum map_key_form form, const void *key,
                           const char *wanted) {
  char name[MAP_ROW_NAME_SIZE];
  map_key_name(name, &types, &info, key, form);
  assert_string_equal(name, wanted);
}

static void assert_name(const void *key, const char *wanted) {
  assert_name_in(MAP_KEY_BY_TYPE, key, wanted);
}

TEST(a_flow_is_called_by_its_addresses_and_ports) {
  uint32_t be32 = type(BTF_KIND_TYPEDEF, "__be32", 0, u32),
           be16 = type(BTF_KIND_TYPEDEF, "__be16", 0, u16);
  uint32_t padding = array(u8, u32, 3);
  uint32_t key = type(BTF_KIND_STRUCT, "flow", 5, 12);
  member("source", be32, 0);
  member("destination", be32, 4);
  member("port", be16, 8);
  member("protocol", u8, 10);
  member("pad", padding, 9);
  assert_int_equal(open_types(key, 12, u64, 8), 0);
  static const unsigned char flow[12] = {10, 0, 0, 1, 192, 0,
                                         2,  7, 1, 2, 17,  0};
  assert_name(flow, "10.0.0.1-192.0.2.7-258-17");
}

/* Declares a key of two members of type __be32. Returns its type. */
static uint32_t two_words(const char *first, const char *second) {
  uint32_t be32 = type(BTF_KIND_TYPEDEF, "__be32", 0, u32);
  uint32_t key = type(BTF_KIND_STRUCT, "key", 2, 8);
  member(first, be32, 0);
  member(second, be32, 4);
  return key;
}

static const unsigned char tunnel[8] = {0, 0, 1, 1, 192, 0, 2, 7};

TEST(an_identifier_in_network_order_is_no_address) {
  assert_int_equal(open_types(two_words("teid", "recipient"), 8, u64, 8), 0);
  assert_name(tunnel, "257-3221225991");
  end();
  begin();
  assert_int_equal(open_types(two_words("teid", "src_ip"), 8, u64, 8), 0);
  assert_name(tunnel, "257-192.0.2.7");
}

TEST(a_tag_says_how_a_member_of_a_key_is_shown) {
  uint32_t key = two_words("teid", "peer");
  tag("percore:hex", key, 0);
  tag("percore:ipv4", key, 1);
  assert_int_equal(open_types(key, 8, u64, 8), 0);
  assert_name(tunnel, "00000101-192.0.2.7");
}

TEST(the_option_says_how_keys_are_shown_whatever_the_program_says) {
  assert_int_equal(open_types(two_words("teid", "src_ip"), 8, u64, 8), 0);
  assert_name_in(MAP_KEY_HEX, tunnel, "00000101-c0000207");
  assert_name_in(MAP_KEY_IPV4, tunnel, "0.0.1.1-192.0.2.7");
  end();
  begin();
  types = (struct btf_types){0};
  info = (struct bpf_map_info){.key_size = 4};
  assert_name_in(MAP_KEY_IPV4, tunnel + 4, "192.0.2.7");
  assert_name_in(MAP_KEY_HEX, &(uint32_t){0x101}, "00000101");
}

TEST(bytes_are_a_mac_an_ipv6_address_or_text) {
  uint32_t c = integer("char", 1, BTF_INT_SIGNED);
  uint32_t mac = array(u8, u32, 6), ipv6 = array(u8, u32, 16),
           name = array(c, u32, 8);
  uint32_t key = type(BTF_KIND_STRUCT, "key", 3, 30);
  member("mac", mac, 0);
  member("address", ipv6, 6);
  member("name", name, 22);
  assert_int_equal(open_types(key, 30, u64, 8), 0);
  unsigned char bytes[30] = {2, 0, 0, 0, 0, 0x1f, 0x20, 1, 0xd, 0xb8};
  bytes[21] = 1;
  memcpy(bytes + 22,
         "a\x1b\xff"
         "b",
         4);
  assert_name(bytes, "02:00:00:00:00:1f-2001:db8::1-a__b");
}

/* Begins a structure whose members may be bit fields. */
static uint32_t bit_struct(const char *name, uint32_t members, uint32_t size) {
  return type(1u << 7 | BTF_KIND_STRUCT, name, members, size);
}

static void bit_member(const char *name, uint32_t id, uint32_t bit,
                       uint32_t bits) {
  word(text(name));
  word(id);
  word(bits << 24 | bit);
}

TEST(keys_that_differ_only_in_bit_fields_have_two_names) {
  uint32_t key = bit_struct("key", 3, 4);
  bit_member("version", u32, 0, 4);
  bit_member("vlan", u32, 4, 12);
  bit_member("port", u16, 16, 0);
  assert_int_equal(open_types(key, 4, u64, 8), 0);
  struct {
    uint32_t version : 4, vlan : 12, port : 16;
  } value = {4, 4094, 443};
  assert_name(&value, "4-4094-443");
  value.vlan = 2;
  assert_name(&value, "4-2-443");
}

TEST(an_address_is_known_by_the_name_of_what_holds_it) {
  static const unsigned char bytes[12] = {10, 0, 0, 1, 10, 0, 0, 2, 5};
  uint32_t port = integer("unsigned int", 4, 0);
  uint32_t address = type(BTF_KIND_TYPEDEF, "in_addr_t", 0, u32);
  uint32_t key = type(BTF_KIND_STRUCT, "key", 3, 12);
  member("from", address, 0);
  member("daddr", u32, 4);
  member("number", port, 8);
  assert_int_equal(open_types(key, 12, u64, 8), 0);
  assert_name(bytes, "10.0.0.1-10.0.0.2-5");
  end();
  begin();
  assert_int_equal(open_types(u32, 4, u64, 8), 0);
  strcpy(info.name, "filter_ipv4"); /* as in xdp-filter */
  assert_name(bytes, "10.0.0.1");
}

TEST(a_key_of_an_lpm_trie_is_a_prefix) {
  struct {
    uint32_t length;
    unsigned char address[16];
  } key = {8, {10}};
  types = (struct btf_types){0};
  info = (struct bpf_map_info){.type = BPF_MAP_TYPE_LPM_TRIE, .key_size = 8};
  assert_true(map_can_be_read(&info));
  assert_name(&key, "10.0.0.0/8");
  info.key_size = 20;
  key.length = 32;
  memcpy(key.address, "\x20\x01\x0d\xb8", 4);
  assert_name(&key, "2001:db8::/32");
}

TEST(integers_have_their_sign_and_enumerators_their_names) {
  uint32_t s16 = integer("s16", 2, BTF_INT_SIGNED);
  uint32_t verdict = type(BTF_KIND_ENUM, "verdict", 2, 4);
  word(text("PASS"));
  word(2);
  word(text("DROP"));
  word(1);
  uint32_t key = type(BTF_KIND_STRUCT, "key", 2, 8);
  member("verdict", verdict, 0);
  member("zone", s16, 4);
  assert_int_equal(open_types(key, 8, u64, 8), 0);
  struct {
    uint32_t verdict;
    int16_t zone, unused;
  } value = {.verdict = 1, .zone = -3};
  assert_name(&value, "DROP--3");
  value.verdict = 9;
  assert_name(&value, "9--3");
}

TEST(an_integer_of_any_size_has_a_name) {
  for (uint32_t size = 0; size <= 16; size++) {
    begin();
    uint32_t u64 = integer("u64", 8, 0);
    uint32_t key = integer("odd", size, BTF_INT_SIGNED);
    if (open_types(key, 16, u64, 8) == 0) {
      unsigned char bytes[16] = {1};
      char name[MAP_ROW_NAME_SIZE];
      map_key_name(name, &types, &info, bytes, MAP_KEY_BY_TYPE);
      assert_true(name[0] != '\0');
    }
    end();
  }
}

TEST(without_types_keys_are_numbers_or_bytes) {
  types = (struct btf_types){0};
  info = (struct bpf_map_info){.key_size = 4};
  assert_name(&(uint32_t){4000000000u}, "4000000000");
  info.key_size = 3;
  assert_name("\x01\x02\xab", "0102ab");
}

TEST(an_empty_text_is_a_name_and_a_long_one_is_cut) {
  uint32_t c = integer("char", 1, BTF_INT_CHAR);
  uint32_t key = array(c, u32, 512);
  assert_int_equal(open_types(key, 512, u64, 8), 0);
  char bytes[512] = "", name[MAP_ROW_NAME_SIZE];
  assert_name(bytes, "-");
  memset(bytes, 'x', MAP_ROW_NAME_SIZE - 1);
  assert_name(bytes, bytes);
  for (size_t i = MAP_ROW_NAME_SIZE - 1; i + 2 < sizeof(bytes); i += 2) {
    memcpy(&bytes[i], "\xc3\xa9", 2);
    memset(bytes, 'y', i % 2 + i % 3);
    map_key_name(name, &types, &info, bytes, MAP_KEY_BY_TYPE);
    assert_true(region_text_is_valid(name));
    assert_memory_equal(name, bytes, MAP_ROW_NAME_SIZE - sizeof("...."));
    assert_string_equal(name + strlen(name) - 3, "...");
  }
}

TEST(a_key_type_larger_than_the_key_reads_nothing_beyond_it) {
  uint32_t key = type(BTF_KIND_STRUCT, "key", 2, 8);
  member("inside", u32, 0);
  member("beyond", u32, 4);
  assert_int_equal(open_types(key, 4, u64, 8), 0);
  /* The key is allocated with malloc, so that Valgrind and the sanitizer detect
   * reads beyond its end. */
  uint32_t *bytes = malloc(4);
  *bytes = 7;
  char name[MAP_ROW_NAME_SIZE];
  map_key_name(name, &types, &info, bytes, MAP_KEY_BY_TYPE);
  assert_true(name[0] != '\0');
  free(bytes);
}

/* ---------------------------------------------------------------------------
 * Lies
 */

/* A libbpf that checks 24 bits of the count refuses the file. */
TEST(members_that_libbpf_has_not_checked_are_not_read) {
  uint32_t key = type(BTF_KIND_STRUCT, "key", 2 | 1 << 22, 8);
  member("a", u32, 0);
  member("b", u32, 4);
  uint32_t value = type(BTF_KIND_STRUCT, "value", 1 | 1 << 22, 8);
  member("packets", u64, 0);
  if (open_types(key, 8, value, 8) != 0)
    return;
  char name[MAP_ROW_NAME_SIZE];
  map_key_name(name, &types, &info, (uint32_t[]){1, 2}, MAP_KEY_BY_TYPE);
  assert_string_equal(name, "1-2");
  assert_int_equal(map_fields_read(&fields, &types, &info, why), 0);
  assert_int_equal(fields.len, 1);
}

static uint32_t random_word(uint32_t *state) {
  *state = *state * 1664525 + 1013904223;
  return *state >> 8;
}

/* Writes types of every kind that percore reads. The test later overwrites some
 * words of these types. */
static void write_many_types(uint32_t *state, uint32_t *key, uint32_t *value) {
  uint32_t be32 = type(BTF_KIND_TYPEDEF, "__be32", 0, u32);
  uint32_t mac = array(u8, u32, 6), many = array(u64, u32, 4);
  *key = type(BTF_KIND_STRUCT, "key", 3, 16);
  member("address", be32, 0);
  member("mac", mac, 4);
  member("name", u32, 12);
  uint32_t both = type(BTF_KIND_UNION, "", 2, 8);
  member("packets", u64, 0);
  member("rx_packets", u64, 0);
  *value = type(BTF_KIND_STRUCT, "value", 3, 48);
  member("", both, 0);
  member("drops", many, 8);
  member("queued", u32, 40);
  tag("percore:gauge", *value, 2);
  size_t words = file.types_len;
  for (uint32_t lies = random_word(state) % 6; lies > 0; lies--)
    file.types[random_word(state) % words] = random_word(state) % 4 == 0
                                                 ? random_word(state) << 8
                                                 : random_word(state) % 32;
}

TEST(types_that_lie_are_read_within_the_key_and_the_value) {
  uint32_t seed = 1;
  int read = 0;
  for (int i = 0; i < 3000; i++) {
    uint32_t key, value;
    begin();
    write_many_types(&seed, &key, &value);
    if (open_types(key, 16, value, 48) == 0) {
      uint64_t *values = calloc(1, 48);
      void *bytes = calloc(1, 16);
      char name[MAP_ROW_NAME_SIZE];
      if (map_fields_read(&fields, &types, &info, why) == 0)
        for (size_t f = 0; f < fields.len; f++)
          assert_int_equal(map_field_value(&fields.list[f], values), 0);
      map_key_name(name, &types, &info, bytes, MAP_KEY_BY_TYPE);
      assert_true(name[0] != '\0');
      free(values);
      free(bytes);
      read++;
    }
    end();
  }
  assert_true(read > 500);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
