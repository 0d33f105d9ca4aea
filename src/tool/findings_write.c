/* Writes findings as text and as JSON. */
#include "percore_config.h"

#include "doctor.h"
#include "json.h"
#include "text.h"

#include <errno.h>
#include <string.h>

static const struct {
  const char *name;
  enum paint paint;
} verdicts[] = {[VERDICT_OK] = {"ok", PAINT_GOOD},
                [VERDICT_NOTE] = {"note", PAINT_WARN},
                [VERDICT_MISSING] = {"missing", PAINT_BAD}};

#define INDENT 31 /* column where values begin */

/* Writes a sentence such as "Loads come from idle (proven) on 2 of 2 cores." */
static void write_conclusion(FILE *out, const struct doctor_facts *facts) {
  static const char begin[] = "Loads come from ";
  const char *separator = begin;
  for (int source = 0; source < SOURCES; source++) {
    const struct source_facts *fact = &facts->source[source];
    if (fact->chosen == 0)
      continue;
    fprintf(out, "%s%s (%s) on %d of %d cores", separator, source_name(source),
            proof_name(fact->proof), fact->chosen, facts->cores_online);
    separator = ", ";
  }
  if (separator != begin)
    fputs(".\n", out);
  else if (facts_have_source(facts))
    fputs("No source is used by default: choose one with --source (plugin: "
          "Source).\n",
          out);
  else
    fputs("No source of loads works here; the advice above says what would "
          "help.\n",
          out);
}

int findings_text_write(FILE *out, const struct findings *findings,
                        const struct doctor_facts *facts, int width,
                        bool colour) {
  const char *group = "";
  fprintf(out, "%s on %s\n", PACKAGE_STRING, facts->kernel);
  for (size_t i = 0; i < findings->len; i++) {
    const struct finding *finding = &findings->finding[i];
    if (strcmp(group, finding->group) != 0)
      fprintf(out, "\n%s\n", finding->group);
    group = finding->group;
    fputs("  ", out);
    paint_pad(out, colour, verdicts[finding->verdict].paint,
              verdicts[finding->verdict].name, -7);
    fprintf(out, "  %-19s  ", finding->name);
    text_wrap(out, finding->value, INDENT, width);
    if (finding->advice[0] != '\0') {
      fprintf(out, "%*s", INDENT, "-> ");
      text_wrap(out, finding->advice, INDENT, width);
    }
  }
  fputc('\n', out);
  write_conclusion(out, facts);
  return 0;
}

int findings_json_write(FILE *out, const struct findings *findings,
                        const struct doctor_facts *facts) {
  struct json *json = json_begin(out, "doctor");
  if (json == NULL)
    return -ENOMEM;
  json_text(json, "kernel", facts->kernel);
  json_bool(json, "works", facts_have_source(facts));
  json_integer(json, "cores_online", facts->cores_online);
  json_open_array(json, "findings");
  for (size_t i = 0; i < findings->len; i++) {
    const struct finding *finding = &findings->finding[i];
    json_open_object(json, NULL);
    json_text(json, "group", finding->group);
    json_text(json, "name", finding->name);
    json_text(json, "verdict", verdicts[finding->verdict].name);
    json_text(json, "value", finding->value);
    if (finding->advice[0] != '\0')
      json_text(json, "advice", finding->advice);
    json_close_object(json);
  }
  json_close_array(json);
  return json_end(json);
}
