#pragma once

#include <string>

#include "tenon/json/value.h"

/// Numbers in Python's spelling. Not for other layers, which have dumps.
namespace tenon::json::detail {

/// repr(value), with json's names for what is not finite: NaN, Infinity, -Infinity.
void append_python_float(std::string& out, double value);
/// json.dumps(json.loads(number.text)).
void append_python_number(std::string& out, const Number& number);

}  // namespace tenon::json::detail
