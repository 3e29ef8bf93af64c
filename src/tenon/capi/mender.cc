#include <memory>
#include <string>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/capi/handle.h"
#include "tenon/capi/tools.h"
#include "tenon/json/value.h"
#include "tenon/repair/argument_repairer.h"
#include "tenon/schema/schema.h"

// The schema is behind a pointer, so that it stays where it is when the handle is made.
struct tenon_mender {
  std::unique_ptr<const tenon::json::Value> schema;  // the mender views it
  tenon::repair::ArgumentRepairer mender;
  std::string repaired;  // the last call's; the caller has a view of it
  std::string tail;      // of `repaired`: an unfinished character, for the next call
  bool is_finished = false;
};

namespace tenon::capi {
namespace {

// The tool with its compiled schema. It sets all members except the views, whose data must be where
// they stay first.
Expected<repair::RepairedTool> tool_with(const message::Tool& tool, tenon_text rules) {
  repair::RepairedTool made{.name = tool.name};
  if (!tool.parameters.is_null()) {
    auto schema = schema::Schema::compile(tool.parameters);
    if (!schema) return Unexpected(schema.error());
    made.schema = *std::move(schema);
  }
  if (!view(rules).empty()) {
    auto own = repair::Rules::compile(view(rules), "rules");
    if (!own) return Unexpected(own.error());
    made.rules = *std::move(own);
  }
  return made;
}

// What is passed on ends with a whole character, as callers decode each piece by itself; the first
// bytes of an unfinished one wait in `tail`.
template <class Feed>
tenon_error* repaired_by(tenon_mender* mender, tenon_text* repaired, Feed feed) noexcept {
  clear(repaired);
  return guarded({{mender, "mender"}, {repaired, "repaired"}}, [&]() -> Status {
    if (mender->is_finished) {
      return Unexpected(Error{Errc::invalid, "the arguments have been finished"});
    }
    mender->repaired = std::exchange(mender->tail, {});
    feed();
    if (!mender->is_finished) {
      const std::size_t whole = mender->repaired.size() - utf8::open_tail(mender->repaired);
      mender->tail = mender->repaired.substr(whole);
      mender->repaired.resize(whole);
    }
    *repaired = text_of(mender->repaired);
    return {};
  });
}

}  // namespace
}  // namespace tenon::capi

namespace capi = tenon::capi;
namespace json = tenon::json;
namespace repair = tenon::repair;
using tenon::Status;
using tenon::Unexpected;

tenon_error* tenon_mender_new(tenon_text tool, tenon_text rules, tenon_mender** mender) {
  capi::clear(mender);
  return capi::guarded({{mender, "mender"}}, [&]() -> Status {
    auto source = capi::json_in(tool, "tool");
    if (!source) return Unexpected(source.error());
    auto read = capi::tool_of(*source);
    if (!read) return Unexpected(read.error());
    auto made = capi::tool_with(*read, rules);
    if (!made) return Unexpected(made.error());
    // The repairer views the schema's JSON for as long as it lives.
    auto own = std::make_unique<json::Value>(std::move(read->parameters));
    if (made->schema != nullptr) made->source = own.get();
    *mender = new tenon_mender{.schema = std::move(own),
                               .mender = repair::ArgumentRepairer(*std::move(made))};
    return {};
  });
}

void tenon_mender_free(tenon_mender* mender) {
  delete mender;
}

tenon_error* tenon_mender_feed(tenon_mender* mender, tenon_text arguments, tenon_text* repaired) {
  return capi::repaired_by(mender, repaired,
                           [&] { mender->mender.feed(capi::view(arguments), mender->repaired); });
}

tenon_error* tenon_mender_finish(tenon_mender* mender, int is_incomplete, tenon_text* repaired) {
  return capi::repaired_by(mender, repaired, [&] {
    mender->is_finished = true;
    mender->mender.finish(is_incomplete != 0, mender->repaired);
  });
}

tenon_error* tenon_mender_repairs(const tenon_mender* mender, tenon_string** repairs) {
  capi::clear(repairs);
  return capi::guarded({{mender, "mender"}, {repairs, "repairs"}}, [&]() -> Status {
    json::Array list;
    for (const repair::Repair& one : mender->mender.repairs()) {
      list.emplace_back(
          json::Object{{"kind", one.kind}, {"path", one.path}, {"message", one.message}});
    }
    *repairs = capi::new_string(json::to_string(list));
    return {};
  });
}
