#include "tenon/api/service_parts.h"

#include "tenon/format/format.h"

namespace tenon::api {

std::string format_name(const chat::Model& model) {
  const format::Format* format = model.format();
  return format == nullptr ? "" : format::info(*format).name;
}

bool has_prompts(const chat::Model& model, Call& call) {
  if (model.engine() != nullptr) return true;
  respond_error(call, from_refusal(chat::no_prompts(model)));
  return false;
}

DecodeOptions with_seal(const ServiceParts& parts, const Call& call, DecodeOptions how) {
  how.unseal = [&parts, owner = std::string(call.key.name())](std::string_view sealed) {
    return parts.seal.open(owner, sealed);
  };
  return how;
}

void respond_count(Call& call, chat::Model& model, const message::ChatRequest& chat,
                   json::Object members, std::span<const FieldName> names) {
  if (const auto refused = refused_by(chat, model)) return respond_error(call, *refused);
  const auto prepared = model.prepare(chat);
  if (!prepared) return respond_error(call, from_refusal(prepared.error(), names));
  members.set("input_tokens", static_cast<std::uint64_t>(prepared->tokens.size()));
  respond_json(call, members);
}

}  // namespace tenon::api
