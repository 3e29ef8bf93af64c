#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "tenon/json/value.h"

namespace tenon::format {

/// A list of JSON Schemas whose copies share their data, so that many parsers can have it. Adding
/// to a shared list makes a copy.
class SchemaList {
 public:
  SchemaList() = default;
  SchemaList(std::vector<json::Value> schemas)  // NOLINT: it is one
      : list_(std::make_shared<std::vector<json::Value>>(std::move(schemas))) {}
  SchemaList(std::initializer_list<json::Value> schemas)
      : SchemaList(std::vector<json::Value>(schemas)) {}

  [[nodiscard]] std::size_t size() const { return list_ == nullptr ? 0 : list_->size(); }
  /// Valid as long as any copy of the list.
  [[nodiscard]] const json::Value& operator[](std::size_t at) const { return (*list_)[at]; }
  void push_back(json::Value schema) {
    if (list_.use_count() != 1) {
      list_ = list_ == nullptr ? std::make_shared<std::vector<json::Value>>()
                               : std::make_shared<std::vector<json::Value>>(*list_);
    }
    list_->push_back(std::move(schema));
  }

 private:
  std::shared_ptr<std::vector<json::Value>> list_;  // null: empty
};

}  // namespace tenon::format
