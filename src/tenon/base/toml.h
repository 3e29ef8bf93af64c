#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tenon/base/expected.h"

/// TOML 1.0 read into a tree that remembers where everything stood, for configuration and format
/// definitions whose errors must name line and key.
///
///     Expected<toml::Document> file = toml::parse(text, "tenon.toml");
///     if (!file) return Unexpected(file.error());      // "tenon.toml:3:8: ..."
///     for (const toml::Entry& entry : file->root.entries()) {
///       if (entry.key != "port") return Unexpected(file->error(entry, "unknown key"));
///       const std::int64_t* port = entry.value.if_integer();
///       if (port == nullptr) return Unexpected(file->error(entry, "expected an integer"));
///     }
namespace tenon::toml {

/// Line and column count from 1; columns are code points.
struct Position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;

  bool operator==(const Position&) const = default;
};

class Value;
struct Entry;
using Array = std::vector<Value>;

/// Entries in the order of the text.
class Table {
 public:
  Table() noexcept;
  Table(const Table& other);
  Table(Table&& other) noexcept;
  Table& operator=(const Table& other);
  Table& operator=(Table&& other) noexcept;
  ~Table();

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const;
  /// Null if the table has no such key. Linear.
  [[nodiscard]] const Value* find(std::string_view key) const;
  void append(Entry entry);

 private:
  std::vector<Entry> entries_;
};

/// A date or time as RFC 3339 writes it; Tenon does not calculate with it.
struct DateTime {
  std::string text;

  bool operator==(const DateTime&) const = default;
};

enum class Kind : std::uint8_t { string, integer, floating, boolean, date_time, array, table };

/// "a string", "an integer", ...: for messages.
[[nodiscard]] std::string_view kind_name(Kind kind);

class Value {
 public:
  using Data = std::variant<std::string, std::int64_t, double, bool, DateTime, Array, Table>;

  Value(Data data, Position position);

  [[nodiscard]] Kind kind() const { return static_cast<Kind>(data_.index()); }
  [[nodiscard]] Position position() const { return position_; }

  /// Null if the value is of another kind.
  [[nodiscard]] const std::string* if_string() const { return std::get_if<std::string>(&data_); }
  [[nodiscard]] const std::int64_t* if_integer() const { return std::get_if<std::int64_t>(&data_); }
  [[nodiscard]] const double* if_floating() const { return std::get_if<double>(&data_); }
  [[nodiscard]] const bool* if_boolean() const { return std::get_if<bool>(&data_); }
  [[nodiscard]] const DateTime* if_date_time() const { return std::get_if<DateTime>(&data_); }
  [[nodiscard]] const Array* if_array() const { return std::get_if<Array>(&data_); }
  [[nodiscard]] const Table* if_table() const { return std::get_if<Table>(&data_); }

 private:
  Data data_;
  Position position_;
};

struct Entry {
  std::string key;
  Value value;  ///< Its position is that of the value; for a [table], that of the header.
};

inline Table::Table() noexcept = default;
inline Table::Table(const Table& other) = default;
inline Table::Table(Table&& other) noexcept = default;
inline Table& Table::operator=(const Table& other) = default;
inline Table& Table::operator=(Table&& other) noexcept = default;
inline Table::~Table() = default;
inline std::size_t Table::size() const {
  return entries_.size();
}
inline bool Table::empty() const {
  return entries_.empty();
}
inline void Table::append(Entry entry) {
  entries_.push_back(std::move(entry));
}
inline Value::Value(Data data, Position position) : data_(std::move(data)), position_(position) {}

struct Document {
  std::string source_name;
  Table root;

  /// "tenon.toml:3:8: what", an Errc::invalid.
  [[nodiscard]] Error error(Position position, std::string_view what) const;
  /// "tenon.toml:3:8: 'port': what".
  [[nodiscard]] Error error(const Entry& entry, std::string_view what) const;
};

struct ParseOptions {
  std::size_t max_bytes = std::size_t{4} << 20;
};

/// Reads a whole text. Values nest at most 256 deep. Errors are "source_name:line:column: what"
/// with Errc::invalid, or Errc::limit_exceeded for a text over max_bytes.
[[nodiscard]] Expected<Document> parse(std::string_view text, std::string_view source_name,
                                       const ParseOptions& options = {});

}  // namespace tenon::toml
