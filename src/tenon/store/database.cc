#include "tenon/store/database.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

// SQLite behind three small classes: Statement (binds, steps, reads columns), Transaction (rolls
// back unless committed), and Database, which opens a file only if it is ours, whole, and not from
// a newer Tenon, and then brings it to the newest version (make_ours). A connection is used by one
// thread at a time; its owner has the lock.

namespace tenon::store {
namespace {

// "Tnon" in the file's header marks a database as ours.
constexpr std::int64_t kApplicationId = 0x546e6f6e;
// How long one process waits for another that is writing.
constexpr int kBusyMs = 5000;

// WAL: readers and the writer do not wait for each other, and when a process dies, its committed
// changes survive. With synchronous = NORMAL a loss of power may lose the last commits, but does
// not damage the file. Deleted content is overwritten, because it is what users have said.
constexpr const char* kSettings =
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = NORMAL;"
    "PRAGMA secure_delete = ON;"
    "PRAGMA journal_size_limit = 16777216;"
    "PRAGMA trusted_schema = OFF;";

// `words` say what happened.
Error error_of(sqlite3* connection, int code, std::string_view words) {
  const char* file = sqlite3_db_filename(connection, "main");
  const std::string name = file == nullptr || *file == '\0' ? "the store in memory" : file;
  // The lowest byte of an extended code is the primary one.
  const int kind = code & 0xff;
  const std::string what = name + ": " + std::string(words);
  if (kind == SQLITE_NOTADB) {
    return {Errc::invalid, what + ": name another file, or move this one away"};
  }
  if (kind == SQLITE_CORRUPT) {
    return {Errc::invalid, what +
                               ": move the file away together with its -wal and -shm, and a new "
                               "one is made; `sqlite3 FILE .recover` reads what can be saved"};
  }
  return {Errc::unavailable, what};
}

Error error_of(sqlite3* connection, int code) {
  return error_of(connection, code, sqlite3_errmsg(connection));
}

// SQLite would make the file readable for everybody. Its companion files take this file's
// permissions.
Status make_private(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return Unexpected(Error{Errc::unavailable, path + ": " + std::strerror(errno)});
  ::close(file);
  return {};
}

}  // namespace

// ---- Statement

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Statement::Statement(sqlite3& connection, sqlite3_stmt* statement)
    : connection_(&connection), statement_(statement) {}

Statement& Statement::bind(std::string_view text) {
  const int code =
      sqlite3_bind_text64(statement_.get(), ++bound_, text.data() == nullptr ? "" : text.data(),
                          text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) failed_ = code;
  return *this;
}

Statement& Statement::bind(std::int64_t number) {
  const int code = sqlite3_bind_int64(statement_.get(), ++bound_, number);
  if (code != SQLITE_OK) failed_ = code;
  return *this;
}

// A fault of bind() is reported here, so that calls can be chained: bind(id).bind(now).next().
Expected<bool> Statement::next() {
  const int code = failed_ != SQLITE_OK ? failed_ : sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  Error error = error_of(connection_, code);
  reset();
  return Unexpected(std::move(error));
}

Status Statement::run() {
  for (;;) {
    const Expected<bool> row = next();
    if (!row) return Unexpected(row.error());
    if (!*row) return {};
  }
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  bound_ = 0;
  failed_ = SQLITE_OK;
}

std::string_view Statement::text(int column) const {
  // In this order: sqlite3_column_bytes() gives the size of what the call before it returned.
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(size)};
}

std::int64_t Statement::number(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

// ---- Database

void Database::Close::operator()(sqlite3* connection) const {
  // Waits for statements that are still there, whatever order members are destroyed in.
  sqlite3_close_v2(connection);
}

Expected<Database> Database::open(const std::string& path,
                                  std::span<const char* const> migrations) {
  if (!path.empty()) {
    if (Status made = make_private(path); !made) return Unexpected(made.error());
  }
  sqlite3* connection = nullptr;
  const int flags =
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path.empty() ? ":memory:" : path.c_str(), &connection, flags,
                                   /*zVfs=*/nullptr);
  Database database;
  database.name_ = path.empty() ? "the store in memory" : path;
  database.connection_.reset(connection);
  if (connection == nullptr) return Unexpected(Error{Errc::unavailable, "out of memory"});
  if (code != SQLITE_OK) return Unexpected(error_of(connection, code));
  sqlite3_busy_timeout(connection, kBusyMs);
  if (Status ours = database.make_ours(migrations); !ours) return Unexpected(ours.error());
  return database;
}

// Nothing is written before the file is known to be ours.
Status Database::make_ours(std::span<const char* const> migrations) {
  const auto objects = number_of("SELECT count(*) FROM sqlite_schema");
  if (!objects) return Unexpected(objects.error());
  const auto owner = number_of("PRAGMA application_id");
  if (!owner) return Unexpected(owner.error());
  const auto version = number_of("PRAGMA user_version");
  if (!version) return Unexpected(version.error());
  const bool is_new = *objects == 0 && *owner == 0 && *version == 0;
  if (!is_new && *owner != kApplicationId) {
    return Unexpected(
        Error{Errc::invalid, name_ + " is another program's database: name another file"});
  }
  if (*version < 0 || static_cast<std::size_t>(*version) > migrations.size()) {
    return Unexpected(Error{Errc::invalid, name_ + " was written by a newer Tenon (version " +
                                               std::to_string(*version) + " of the store, here " +
                                               std::to_string(migrations.size()) +
                                               "): use that one, or move the file away"});
  }
  if (Status checked = check(); !checked) return checked;
  if (Status set = run(kSettings); !set) return set;
  for (auto next = static_cast<std::size_t>(*version); next < migrations.size(); ++next) {
    if (Status done = migrate(next, migrations[next]); !done) return done;
  }
  return {};
}

// Brings the file from `version` to the next one. The mark and the change are one transaction, so a
// process that dies here leaves the old version.
Status Database::migrate(std::size_t version, const char* sql) {
  Transaction transaction(*this);
  if (Status begun = transaction.begin(); !begun) return begun;
  // Another process may have migrated the file since we looked.
  const auto now = number_of("PRAGMA user_version");
  if (!now) return Unexpected(now.error());
  if (static_cast<std::size_t>(*now) > version) return {};
  if (Status done = run(sql); !done) return done;
  const std::string marks = "PRAGMA application_id = " + std::to_string(kApplicationId) +
                            "; PRAGMA user_version = " + std::to_string(version + 1);
  if (Status done = run(marks.c_str()); !done) return done;
  return transaction.commit();
}

// Reads the whole file, so that damage is reported at the start and not to a client.
Status Database::check() {
  auto statement = prepare("PRAGMA quick_check(1)");
  if (!statement) return Unexpected(statement.error());
  const auto row = statement->next();
  if (!row) return Unexpected(row.error());
  if (!*row || statement->text(0) == "ok") return {};
  const std::string found(statement->text(0));
  return Unexpected(
      error_of(connection_.get(), SQLITE_CORRUPT, "the file is damaged (" + found + ")"));
}

Expected<std::int64_t> Database::number_of(const char* sql) {
  auto statement = prepare(sql);
  if (!statement) return Unexpected(statement.error());
  const auto row = statement->next();
  if (!row) return Unexpected(row.error());
  return *row ? statement->number(0) : 0;
}

Expected<Statement> Database::prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(connection_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT,
                                      &statement, /*pzTail=*/nullptr);
  if (code != SQLITE_OK) return Unexpected(error_of(connection_.get(), code));
  return Statement(*connection_, statement);
}

Status Database::run(const char* sql) {
  const int code = sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return Unexpected(error_of(connection_.get(), code));
  return {};
}

// ---- Transaction

Transaction::~Transaction() {
  if (is_open_) static_cast<void>(database_.run("ROLLBACK"));
}

Status Transaction::begin() {
  // Takes the right to write at once. A transaction that begins by reading may find, when it wants
  // to write, that another process has written, and SQLite then fails it without waiting.
  Status begun = database_.run("BEGIN IMMEDIATE");
  is_open_ = begun.has_value();
  return begun;
}

// The destructor rolls back a commit that fails.
Status Transaction::commit() {
  Status done = database_.run("COMMIT");
  if (done) is_open_ = false;
  return done;
}

}  // namespace tenon::store
