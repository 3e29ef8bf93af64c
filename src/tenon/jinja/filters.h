#pragma once

#include <cstdint>
#include <string_view>

#include "tenon/jinja/args.h"
#include "tenon/jinja/filter.h"
#include "tenon/jinja/runtime.h"

/// jinja2's filters. Their table, with the parameters of each, is in filters.cc; their functions
/// are in a file for each subject.
namespace tenon::jinja {

/// The number of a filter, or kNoBuiltin. `superset` adds those that only GGUF templates use.
[[nodiscard]] std::uint32_t filter_of_name(std::string_view name, bool superset);
[[nodiscard]] Value call_filter(Runtime& rt, std::uint32_t filter, const Value& value,
                                const Args& args);

namespace filters {

// NOLINTBEGIN(readability-identifier-naming): keywords of C++ get an underscore at the end.
// --- filters_text.cc
Value capitalize(Runtime& rt, const FilterInput& in);
Value center(Runtime& rt, const FilterInput& in);
Value format(Runtime& rt, const FilterInput& in);
Value indent(Runtime& rt, const FilterInput& in);
Value lower(Runtime& rt, const FilterInput& in);
Value replace(Runtime& rt, const FilterInput& in);
Value string(Runtime& rt, const FilterInput& in);
Value title(Runtime& rt, const FilterInput& in);
Value trim(Runtime& rt, const FilterInput& in);
Value truncate(Runtime& rt, const FilterInput& in);
Value upper(Runtime& rt, const FilterInput& in);
Value wordcount(Runtime& rt, const FilterInput& in);
Value wordwrap(Runtime& rt, const FilterInput& in);

// --- filters_values.cc
Value attr(Runtime& rt, const FilterInput& in);
Value default_(Runtime& rt, const FilterInput& in);
Value from_json(Runtime& rt, const FilterInput& in);
Value length(Runtime& rt, const FilterInput& in);
Value pprint(Runtime& rt, const FilterInput& in);
Value tojson(Runtime& rt, const FilterInput& in);

// --- filters_sequences.cc
Value batch(Runtime& rt, const FilterInput& in);
Value dictsort(Runtime& rt, const FilterInput& in);
Value first(Runtime& rt, const FilterInput& in);
Value groupby(Runtime& rt, const FilterInput& in);
Value items(Runtime& rt, const FilterInput& in);
Value join(Runtime& rt, const FilterInput& in);
Value last(Runtime& rt, const FilterInput& in);
Value list(Runtime& rt, const FilterInput& in);
Value map(Runtime& rt, const FilterInput& in);
Value max(Runtime& rt, const FilterInput& in);
Value min(Runtime& rt, const FilterInput& in);
Value random(Runtime& rt, const FilterInput& in);
Value reject(Runtime& rt, const FilterInput& in);
Value rejectattr(Runtime& rt, const FilterInput& in);
Value reverse(Runtime& rt, const FilterInput& in);
Value select(Runtime& rt, const FilterInput& in);
Value selectattr(Runtime& rt, const FilterInput& in);
Value slice(Runtime& rt, const FilterInput& in);
Value sort(Runtime& rt, const FilterInput& in);
Value sum(Runtime& rt, const FilterInput& in);
Value unique(Runtime& rt, const FilterInput& in);

// --- filters_html.cc
Value escape(Runtime& rt, const FilterInput& in);
Value forceescape(Runtime& rt, const FilterInput& in);
Value safe(Runtime& rt, const FilterInput& in);
Value striptags(Runtime& rt, const FilterInput& in);
Value urlencode(Runtime& rt, const FilterInput& in);
Value urlize(Runtime& rt, const FilterInput& in);
Value xmlattr(Runtime& rt, const FilterInput& in);

// --- filters_numbers.cc
Value abs(Runtime& rt, const FilterInput& in);
Value filesizeformat(Runtime& rt, const FilterInput& in);
Value float_(Runtime& rt, const FilterInput& in);
Value int_(Runtime& rt, const FilterInput& in);
Value round(Runtime& rt, const FilterInput& in);
// NOLINTEND(readability-identifier-naming)

}  // namespace filters
}  // namespace tenon::jinja
