#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tenon::store {

/// A prepared statement, run again and again. It belongs to its Database, which outlives it.
///
///     statement.bind(id).bind(now);
///     Expected<bool> row = statement.next();
///     if (row && *row) use(statement.text(0));
///     statement.reset();
class Statement {
 public:
  Statement() = default;
  Statement(sqlite3& connection, sqlite3_stmt* statement);

  /// The next parameter. A text is copied.
  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t number);
  /// True: a row is there to be read; false: there are no more. Reset after false and a failure.
  [[nodiscard]] Expected<bool> next();
  /// Runs it to its end.
  [[nodiscard]] Status run();
  void reset();

  /// Of the row, columns from 0. The view holds until next() or reset().
  [[nodiscard]] std::string_view text(int column) const;
  [[nodiscard]] std::int64_t number(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  sqlite3* connection_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
  int failed_ = 0;  // what a bind() answered, until it is reset
};

/// One connection to an SQLite file of ours. Not thread-safe. Failures name the file and, where
/// somebody can mend it, say how: `invalid` for a file that is damaged or is not ours, else
/// `unavailable`.
class Database {
 public:
  /// Opens the file, or makes it, for its owner's eyes only; path "" is a database in memory.
  /// `migrations` lead from an empty database to the newest version, one after the other; each is
  /// done whole or not at all. A file that is damaged, of another program, or of a newer version
  /// than these is refused and left as it is.
  [[nodiscard]] static Expected<Database> open(const std::string& path,
                                               std::span<const char* const> migrations);

  [[nodiscard]] Expected<Statement> prepare(const char* sql);
  [[nodiscard]] Status run(const char* sql);

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };

  Status make_ours(std::span<const char* const> migrations);
  Status migrate(std::size_t version, const char* sql);
  Expected<std::int64_t> number_of(const char* sql);
  Status check();

  std::string name_;
  std::unique_ptr<sqlite3, Close> connection_;
};

/// Begins a transaction that writes; without commit() it is undone.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) {}
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  [[nodiscard]] Status begin();
  [[nodiscard]] Status commit();

 private:
  Database& database_;
  bool is_open_ = false;
};

}  // namespace tenon::store
