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

/// A prepared statement that is run many times. Its Database must outlive it.
///
///     statement.bind(id).bind(now);
///     Expected<bool> row = statement.next();
///     if (row && *row) use(statement.text(0));
///     statement.reset();
class Statement {
 public:
  Statement() = default;
  Statement(sqlite3& connection, sqlite3_stmt* statement);

  /// Binds the next parameter. A text is copied.
  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t number);
  /// True: there is a row to read; false: there are no more rows. Reset it after false and after a
  /// failure.
  [[nodiscard]] Expected<bool> next();
  /// Runs it to its end.
  [[nodiscard]] Status run();
  void reset();

  /// A column of the current row, counted from 0. The view is valid until next() or reset().
  [[nodiscard]] std::string_view text(int column) const;
  [[nodiscard]] std::int64_t number(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  sqlite3* connection_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
  int failed_ = 0;  // the result of a failed bind(), until it is reset
};

/// One connection to an SQLite file of Tenon. Not thread-safe. Failures name the file and say what
/// the operator can do, if anything: `invalid` for a file that is damaged or not ours, else
/// `unavailable`.
class Database {
 public:
  /// Opens the file or creates it, readable for its owner only; path "" is a database in memory.
  /// `migrations` lead from an empty database to the newest version, one after the other; each is
  /// done completely or not at all. A file that is damaged, belongs to another program, or has a
  /// newer version than these is refused and left unchanged.
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

/// Begins a transaction that writes. Without commit() it is rolled back.
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
