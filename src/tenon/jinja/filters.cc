#include "tenon/jinja/filters.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <span>

#include "tenon/jinja/name_index.h"

/// The table of filters: what each is called, what it takes, and the function that computes it. The
/// number of a filter is the number of its row, which the parser finds once.
namespace tenon::jinja {
namespace {

constexpr std::size_t kMaxParameters = 5;  // urlize has the most

struct Parameters {
  constexpr Parameters() = default;
  constexpr Parameters(std::initializer_list<std::string_view> list) : size(list.size()) {
    std::copy(list.begin(), list.end(), names.begin());
  }

  // In the order in which they may be given without their names.
  std::array<std::string_view, kMaxParameters> names;
  std::size_t size = 0;
};

struct FilterRow {
  std::string_view name;
  std::string_view called = {};  // its name in errors, if that is another one
  bool takes_any = false;        // reads its arguments itself
  Parameters parameters = {};
  std::size_t required = 0;    // so many of them must be given
  bool superset_only = false;  // only templates of GGUF files have it (CompileOptions::superset)
  Value (*run)(Runtime& rt, const FilterInput& in);
};

// clang-format off: one row a line.
constexpr FilterRow kFilterRows[] = {
    {.name = "abs", .run = filters::abs},
    {.name = "attr", .parameters = {"name"}, .required = 1, .run = filters::attr},
    {.name = "batch", .parameters = {"linecount", "fill_with"}, .required = 1, .run = filters::batch},
    {.name = "capitalize", .run = filters::capitalize},
    {.name = "center", .parameters = {"width"}, .run = filters::center},
    {.name = "count", .called = "length", .run = filters::length},
    {.name = "d", .called = "default", .parameters = {"default_value", "boolean"}, .run = filters::default_},
    {.name = "default", .parameters = {"default_value", "boolean"}, .run = filters::default_},
    {.name = "dictsort", .parameters = {"case_sensitive", "by", "reverse"}, .run = filters::dictsort},
    {.name = "e", .called = "escape", .run = filters::escape},
    {.name = "escape", .run = filters::escape},
    {.name = "filesizeformat", .parameters = {"binary"}, .run = filters::filesizeformat},
    {.name = "first", .run = filters::first},
    {.name = "float", .parameters = {"default"}, .run = filters::float_},
    {.name = "forceescape", .run = filters::forceescape},
    {.name = "format", .takes_any = true, .run = filters::format},
    {.name = "from_json", .superset_only = true, .run = filters::from_json},
    {.name = "fromjson", .called = "from_json", .superset_only = true, .run = filters::from_json},
    {.name = "groupby", .parameters = {"attribute", "default", "case_sensitive"}, .required = 1, .run = filters::groupby},
    {.name = "indent", .parameters = {"width", "first", "blank"}, .run = filters::indent},
    {.name = "int", .parameters = {"default", "base"}, .run = filters::int_},
    {.name = "items", .run = filters::items},
    {.name = "join", .parameters = {"d", "attribute"}, .run = filters::join},
    {.name = "last", .run = filters::last},
    {.name = "length", .run = filters::length},
    {.name = "list", .run = filters::list},
    {.name = "lower", .run = filters::lower},
    {.name = "map", .takes_any = true, .run = filters::map},
    {.name = "max", .parameters = {"case_sensitive", "attribute"}, .run = filters::max},
    {.name = "min", .parameters = {"case_sensitive", "attribute"}, .run = filters::min},
    {.name = "pprint", .run = filters::pprint},
    {.name = "random", .run = filters::random},
    {.name = "reject", .takes_any = true, .run = filters::reject},
    {.name = "rejectattr", .takes_any = true, .run = filters::rejectattr},
    {.name = "replace", .parameters = {"old", "new", "count"}, .required = 2, .run = filters::replace},
    {.name = "reverse", .run = filters::reverse},
    {.name = "round", .parameters = {"precision", "method"}, .run = filters::round},
    {.name = "safe", .run = filters::safe},
    {.name = "select", .takes_any = true, .run = filters::select},
    {.name = "selectattr", .takes_any = true, .run = filters::selectattr},
    {.name = "slice", .parameters = {"slices", "fill_with"}, .required = 1, .run = filters::slice},
    {.name = "sort", .parameters = {"reverse", "case_sensitive", "attribute"}, .run = filters::sort},
    {.name = "string", .run = filters::string},
    {.name = "striptags", .run = filters::striptags},
    {.name = "sum", .parameters = {"attribute", "start"}, .run = filters::sum},
    {.name = "title", .run = filters::title},
    {.name = "tojson", .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"}, .run = filters::tojson},
    {.name = "trim", .parameters = {"chars"}, .run = filters::trim},
    {.name = "truncate", .parameters = {"length", "killwords", "end", "leeway"}, .run = filters::truncate},
    {.name = "unique", .parameters = {"case_sensitive", "attribute"}, .run = filters::unique},
    {.name = "upper", .run = filters::upper},
    {.name = "urlencode", .run = filters::urlencode},
    {.name = "urlize", .parameters = {"trim_url_limit", "nofollow", "target", "rel", "extra_schemes"}, .run = filters::urlize},
    {.name = "wordcount", .run = filters::wordcount},
    {.name = "wordwrap", .parameters = {"width", "break_long_words", "wrapstring", "break_on_hyphens"}, .run = filters::wordwrap},
    {.name = "xmlattr", .parameters = {"autospace"}, .run = filters::xmlattr},
};
// clang-format on

constexpr NameIndex<std::size(kFilterRows)> kFilterIndex(kFilterRows, [](const FilterRow& row) {
  return row.name;
});

}  // namespace

std::uint32_t filter_of_name(std::string_view name, bool superset) {
  const std::uint32_t filter = kFilterIndex.find(name);
  if (filter == kNoBuiltin || (kFilterRows[filter].superset_only && !superset)) return kNoBuiltin;
  return filter;
}

Value call_filter(Runtime& rt, std::uint32_t filter, const Value& value, const Args& args) {
  // A filter can call filters (map), so it may nest without a node of the template for each.
  rt.check_stack();
  rt.step();
  const FilterRow& row = kFilterRows[filter];
  Value bound[kMaxParameters];
  if (!row.takes_any) {
    bind_arguments(rt, args, row.called.empty() ? row.name : row.called,
                   std::span(row.parameters.names.data(), row.parameters.size), row.required,
                   bound);
  }
  return row.run(rt, {value, args, bound});
}

}  // namespace tenon::jinja
