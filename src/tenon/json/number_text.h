#pragma once

#include <string>

#include "tenon/json/value.h"

/// Numbers as Python writes them. Not for other layers, which use dumps.
namespace tenon::json::detail {

/// Appends repr(value); infinities and NaN get the names of Python's json: NaN, Infinity,
/// -Infinity.
void append_python_float(std::string& out, double value);
/// Appends json.dumps(json.loads(number.text)).
void append_python_number(std::string& out, const Number& number);

}  // namespace tenon::json::detail
