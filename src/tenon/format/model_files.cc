#include "tenon/format/model_files.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tenon/format/definition.h"
#include "tenon/format/registry.h"

namespace tenon::format {
namespace {

/// A marker of the definition, and its text in this model.
struct Renaming {
  std::string marker;
  std::string text;
};
using Renamings = std::vector<Renaming>;

// "<start_function_call>" gives "start_function_call".
std::string_view key_of(std::string_view marker) {
  constexpr std::string_view kFrame = "<>|[]";
  const std::size_t begin = std::min(marker.find_first_not_of(kFrame), marker.size());
  return marker.substr(begin, marker.find_last_not_of(kFrame) + 1 - begin);
}

/// A token is a string, or an object with its text and more.
std::string text_of(const json::Value& file, std::string_view key) {
  const json::Value* token = file.find(key);
  if (token != nullptr && token->if_object() != nullptr) token = token->find("content");
  return token == nullptr || token->if_string() == nullptr ? std::string() : *token->if_string();
}

Renamings renamings_in(const Format& format, const json::Value& file) {
  Renamings found;
  if (file.if_object() == nullptr) return found;
  for (const std::string& marker : format.special) {
    // {"start_function_call": "<|call|>"} renames the marker to "<|call|>" for this model.
    if (std::string text = text_of(file, key_of(marker)); !text.empty()) {
      found.push_back({marker, std::move(text)});
    }
  }
  return found;
}

/// The special markers that begin and end what the format writes.
std::vector<std::string> required(const Format& format) {
  std::vector<std::string> markers;
  if (format.syntaxes.empty()) return markers;
  const Syntax& syntax = format.syntaxes.front();
  const auto take = [&](const Pattern& pattern, bool is_end) {
    const auto is_special = [&format](const Piece& piece) {
      return std::ranges::find(format.special, piece.text) != format.special.end();
    };
    if (is_end) {
      const auto found = std::find_if(pattern.rbegin(), pattern.rend(), is_special);
      if (found != pattern.rend()) markers.push_back(found->text);
    } else if (const auto found = std::ranges::find_if(pattern, is_special);
               found != pattern.end()) {
      markers.push_back(found->text);
    }
  };
  take(syntax.open.empty() ? syntax.call : syntax.open, false);
  take(syntax.close.empty() ? syntax.call : syntax.close, true);
  return markers;
}

bool names(const Renamings& renamings, const std::string& marker) {
  return std::ranges::find(renamings, marker, &Renaming::marker) != renamings.end();
}

/// Compiles the definition with other texts.
Expected<std::shared_ptr<const Format>> renamed(const Format& format, const Renamings& renamings) {
  for (const Renaming& renaming : renamings) {
    // The text is put into the TOML source of the definition, where these bytes would mean
    // something else.
    const bool is_plain = std::ranges::all_of(renaming.text, [](char c) {
      return static_cast<unsigned char>(c) >= ' ' && c != '"' && c != '\'' && c != '\\' && c != '$';
    });
    if (!is_plain) {
      return Unexpected(Error{Errc::unsupported, "the token " + json::quoted(renaming.text) +
                                                     " cannot stand for '" + renaming.marker +
                                                     "': it has quotes or control characters"});
    }
  }
  // The source is rewritten and compiled again, so that all tables and checks are those of the new
  // markers.
  const std::string_view source = format.toml;
  std::string text;
  for (std::size_t at = 0; at < source.size();) {
    const auto here = std::ranges::find_if(renamings, [&](const Renaming& renaming) {
      return source.substr(at).starts_with(renaming.marker);
    });
    if (here == renamings.end()) {
      text += source[at++];
    } else {
      text += here->text;
      at += here->marker.size();
    }
  }
  return compile(text, format.info.name + " with the model's markers");
}

}  // namespace

Expected<std::shared_ptr<const Format>> format_of_genai_config(const json::Value& config) {
  const json::Value* name = config.find("tool_call_format");
  if (name == nullptr || name->is_null() || *name == json::Value("")) return nullptr;
  if (name->if_string() == nullptr) {
    return Unexpected(Error{Errc::invalid, "tool_call_format must be a string"});
  }
  return named(*name->if_string());
}

json::Object with_format(const json::Value& old, const Format* format) {
  json::Object config;
  if (old.if_object() != nullptr) config = *old.if_object();
  if (!config.contains("model_type")) config.set("model_type", "generator");
  if (format != nullptr) config.set("tool_call_format", format->info.name);
  return config;
}

// The first file that names both outer markers decides; `missing` tells what the last file with any
// marker lacks.
Expected<std::shared_ptr<const Format>> with_markers_of(std::shared_ptr<const Format> format,
                                                        const json::Value& special_tokens_map,
                                                        const json::Value& tokenizer_config) {
  std::string missing;
  const std::vector<std::string> wanted = required(*format);
  for (const json::Value* file : {&special_tokens_map, &tokenizer_config}) {
    const Renamings renamings = renamings_in(*format, *file);
    if (renamings.empty()) continue;
    missing.clear();
    for (const std::string& marker : wanted) {
      if (!names(renamings, marker)) missing += " " + std::string(key_of(marker));
    }
    if (missing.empty()) return renamed(*format, renamings);
  }
  if (missing.empty()) return format;
  return Unexpected(Error{Errc::invalid, format->info.name +
                                             ": missing required tokens:" + missing +
                                             "; special_tokens_map.json or tokenizer_config.json "
                                             "must name them beside the others"});
}

}  // namespace tenon::format
