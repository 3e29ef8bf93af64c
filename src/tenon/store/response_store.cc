#include "tenon/store/response_store.h"

#include <mutex>
#include <utility>

#include "tenon/base/clock.h"
#include "tenon/store/database.h"

// Documents by id in one SQLite table, in the order in which they were written or touched (`seq`).
// Each change is one transaction: delete the old document, insert the new one, and sweep() what is
// too old or too much. Several processes may share the file; within a process, the mutex lets one
// thread at a time use the connection and its prepared statements.

namespace tenon::store {
namespace {

// The steps from an empty file to the newest version; steps are only added, never changed. `totals`
// is one row that triggers update, so that checking the limits needs no scan and includes all
// processes that share the file.
constexpr const char* kMigrations[] = {
    "CREATE TABLE documents("
    "  seq INTEGER PRIMARY KEY AUTOINCREMENT,"  // in the order of arrival
    "  id TEXT NOT NULL UNIQUE,"
    "  expires INTEGER NOT NULL,"  // seconds since 1970; 0: never
    "  bytes INTEGER NOT NULL,"
    "  document TEXT NOT NULL);"
    "CREATE INDEX by_expiry ON documents(expires) WHERE expires > 0;"
    "CREATE TABLE totals(documents INTEGER NOT NULL, bytes INTEGER NOT NULL);"
    "INSERT INTO totals VALUES(0, 0);"
    "CREATE TRIGGER documents_come AFTER INSERT ON documents BEGIN"
    "  UPDATE totals SET documents = documents + 1, bytes = bytes + new.bytes; END;"
    "CREATE TRIGGER documents_go AFTER DELETE ON documents BEGIN"
    "  UPDATE totals SET documents = documents - 1, bytes = bytes - old.bytes; END;",
};

}  // namespace

struct ResponseStore::Impl {
  Impl(StoreOptions chosen, Database opened)
      : options(std::move(chosen)), database(std::move(opened)) {
    if (!options.now) options.now = unix_time;
  }

  Status prepare();
  [[nodiscard]] std::int64_t expiry() const;
  [[nodiscard]] Status check_size(std::string_view id, std::string_view document) const;
  Expected<std::optional<std::string>> get(std::string_view id);
  Status insert(std::string_view id, std::string_view document);
  Status sweep();
  Expected<Size> size();

  StoreOptions options;
  std::mutex mutex;  // guards the members below
  Database database;
  Statement insert_one;
  Statement select_one;
  Statement touch_one;
  Statement delete_one;
  Statement delete_expired;
  Statement delete_oldest;
  Statement select_totals;
};

Status ResponseStore::Impl::prepare() {
  const struct {
    Statement& statement;
    const char* sql;
  } all[] = {
      {insert_one, "INSERT INTO documents(id, expires, bytes, document) VALUES(?, ?, ?, ?)"},
      {select_one, "SELECT document FROM documents WHERE id = ? AND (expires = 0 OR expires > ?)"},
      {touch_one,
       "UPDATE documents SET seq = (SELECT max(seq) FROM documents) + 1, expires = ?"
       " WHERE id = ? AND (expires = 0 OR expires > ?) RETURNING seq"},
      {delete_one, "DELETE FROM documents WHERE id = ? RETURNING expires"},
      {delete_expired, "DELETE FROM documents WHERE expires > 0 AND expires <= ?"},
      {delete_oldest, "DELETE FROM documents WHERE seq = (SELECT min(seq) FROM documents)"},
      {select_totals, "SELECT documents, bytes FROM totals"},
  };
  for (const auto& [statement, sql] : all) {
    auto prepared = database.prepare(sql);
    if (!prepared) return Unexpected(prepared.error());
    statement = *std::move(prepared);
  }
  return {};
}

// When a document that is written now expires; 0: never.
std::int64_t ResponseStore::Impl::expiry() const {
  const std::int64_t ttl = options.ttl.count();
  return ttl > 0 ? options.now() + ttl : 0;
}

Status ResponseStore::Impl::check_size(std::string_view id, std::string_view document) const {
  if (id.size() + document.size() <= options.max_bytes) return {};
  return Unexpected(
      Error{Errc::limit_exceeded, "a document of " + std::to_string(document.size()) +
                                      " bytes is larger than the whole store may be, " +
                                      std::to_string(options.max_bytes) + " bytes"});
}

Expected<std::optional<std::string>> ResponseStore::Impl::get(std::string_view id) {
  const auto row = select_one.bind(id).bind(options.now()).next();
  if (!row) return Unexpected(row.error());
  std::optional<std::string> found;
  if (*row) found.emplace(select_one.text(0));
  // An unfinished statement would keep its read transaction open.
  select_one.reset();
  return found;
}

// Deletes first instead of "INSERT OR REPLACE", whose deletions fire no triggers, so `totals` would
// drift.
Status ResponseStore::Impl::insert(std::string_view id, std::string_view document) {
  if (Status done = delete_one.bind(id).run(); !done) return done;
  const std::int64_t expires = expiry();
  const auto bytes = static_cast<std::int64_t>(id.size() + document.size());
  return insert_one.bind(id).bind(expires).bind(bytes).bind(document).run();
}

// Deletes documents that are too old, and then the oldest ones until the rest is within the limits.
// Mostly one document has come, so few go; `totals` answers each question without a scan.
Status ResponseStore::Impl::sweep() {
  if (Status done = delete_expired.bind(options.now()).run(); !done) return done;
  for (;;) {
    const auto now = size();
    if (!now) return Unexpected(now.error());
    const bool fits = now->documents <= options.max_documents && now->bytes <= options.max_bytes;
    if (fits || now->documents == 0) return {};
    if (Status done = delete_oldest.run(); !done) return done;
  }
}

Expected<ResponseStore::Size> ResponseStore::Impl::size() {
  const auto row = select_totals.next();
  if (!row) return Unexpected(row.error());
  Size size;
  if (*row) {
    size = {.documents = static_cast<std::uint64_t>(select_totals.number(0)),
            .bytes = static_cast<std::uint64_t>(select_totals.number(1))};
  }
  select_totals.reset();
  return size;
}

ResponseStore::ResponseStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ResponseStore::~ResponseStore() = default;

Expected<std::unique_ptr<ResponseStore>> ResponseStore::open(StoreOptions options) {
  auto database = Database::open(options.path, kMigrations);
  if (!database) return Unexpected(database.error());
  auto impl = std::make_unique<Impl>(std::move(options), *std::move(database));
  if (Status done = impl->prepare(); !done) return Unexpected(done.error());
  // The limits may be lower than when the file was written.
  Transaction transaction(impl->database);
  Status done = transaction.begin();
  if (done) done = impl->sweep();
  if (done) done = transaction.commit();
  if (!done) return Unexpected(done.error());
  return std::unique_ptr<ResponseStore>(new ResponseStore(std::move(impl)));
}

Status ResponseStore::put(std::string_view id, std::string_view document) {
  if (Status fits = impl_->check_size(id, document); !fits) return fits;
  const std::lock_guard lock(impl_->mutex);
  Transaction transaction(impl_->database);
  Status done = transaction.begin();
  if (done) done = impl_->insert(id, document);
  if (done) done = impl_->sweep();
  if (done) done = transaction.commit();
  return done;
}

// Reads and writes in one transaction, so that no other process changes the document in between.
Status ResponseStore::change(std::string_view id, const Change& change) {
  const std::lock_guard lock(impl_->mutex);
  Transaction transaction(impl_->database);  // one that writes: other processes wait for it
  if (Status begun = transaction.begin(); !begun) return begun;
  auto kept = impl_->get(id);
  if (!kept) return Unexpected(kept.error());
  const std::optional<std::string> changed = change(*std::move(kept));
  if (!changed) return {};
  Status done = impl_->check_size(id, *changed);
  if (done) done = impl_->insert(id, *changed);
  if (done) done = impl_->sweep();
  if (done) done = transaction.commit();
  return done;
}

Expected<std::optional<std::string>> ResponseStore::get(std::string_view id) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->get(id);
}

Expected<bool> ResponseStore::touch(std::string_view id) {
  const std::lock_guard lock(impl_->mutex);
  Statement& touch = impl_->touch_one;
  const auto row = touch.bind(impl_->expiry()).bind(id).bind(impl_->options.now()).next();
  if (!row) return Unexpected(row.error());
  if (*row) {
    // RETURNING gives a row before the statement has ended; only its end commits the change.
    if (Status done = touch.run(); !done) return Unexpected(done.error());
  }
  return *row;
}

Expected<bool> ResponseStore::erase(std::string_view id) {
  const std::lock_guard lock(impl_->mutex);
  Statement& erase = impl_->delete_one;
  const auto row = erase.bind(id).next();
  if (!row) return Unexpected(row.error());
  const std::int64_t expires = *row ? erase.number(0) : 0;
  if (*row) {
    if (Status done = erase.run(); !done) return Unexpected(done.error());
  }
  // A document that has expired was deleted all the same, but for callers it was not there.
  return *row && (expires == 0 || expires > impl_->options.now());
}

Expected<ResponseStore::Size> ResponseStore::size() {
  const std::lock_guard lock(impl_->mutex);
  return impl_->size();
}

}  // namespace tenon::store
