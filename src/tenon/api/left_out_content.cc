#include "tenon/api/left_out_content.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "tenon/api/fields.h"
#include "tenon/vocab/spelling.h"

namespace tenon::api {
namespace {

using json::Value;

// A file's kind and its first bytes, in base64.
struct Content {
  std::string_view media_type;
  std::string_view data;
};

std::string_view text_at(const Value& object, std::string_view key) {
  const Value* value = object.if_object() == nullptr ? nullptr : present(object, key);
  const std::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

// `data:image/png;base64,iVBO...`
Content of_data_url(std::string_view url) {
  constexpr std::string_view kScheme = "data:";
  const std::size_t comma = url.find(',');
  if (!url.starts_with(kScheme) || comma == url.npos) return {};
  const std::string_view head = url.substr(kScheme.size(), comma - kScheme.size());
  return {.media_type = head.substr(0, head.find(';')), .data = url.substr(comma + 1)};
}

// Where each dialect has the file of a part; empty if it has an address or a file's id instead.
Content content_of(const Value& part) {
  if (const Value* source = present(part, "source")) {  // Messages
    return {.media_type = text_at(*source, "media_type"), .data = text_at(*source, "data")};
  }
  if (const Value* image = present(part, "image_url")) {  // Responses: text; Chat: an object
    const std::string* url = image->if_string();
    return of_data_url(url == nullptr ? text_at(*image, "url") : std::string_view(*url));
  }
  if (const Value* file = present(part, "file")) return of_data_url(text_at(*file, "file_data"));
  return of_data_url(text_at(part, "file_data"));
}

std::size_t number_at(std::string_view bytes, std::size_t at, std::size_t count, bool is_big) {
  std::size_t number = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = is_big ? at + i : at + count - 1 - i;
    number = number << 8U | static_cast<unsigned char>(bytes[place]);
  }
  return number;
}

// Width and height of a PNG or a GIF, which are in its first bytes: "640x480 ", with a space. Other
// formats have them further on, or in several places, and are told without.
std::string size_of(std::string_view base64) {
  constexpr std::size_t kHead = 32;  // characters of base64: 24 bytes
  const std::optional<std::string> bytes = vocab::from_base64(base64.substr(0, kHead));
  if (!bytes || bytes->size() < kHead / 4 * 3) return {};
  std::size_t width = 0;
  std::size_t height = 0;
  if (bytes->starts_with("\x89PNG")) {
    width = number_at(*bytes, 16, 4, /*is_big=*/true);
    height = number_at(*bytes, 20, 4, /*is_big=*/true);
  } else if (bytes->starts_with("GIF8")) {
    width = number_at(*bytes, 6, 2, /*is_big=*/false);
    height = number_at(*bytes, 8, 2, /*is_big=*/false);
  } else {
    return {};
  }
  return std::to_string(width) + 'x' + std::to_string(height) + ' ';
}

// Text fit for the brackets: nothing that ends them, and no more than a line.
std::string plain(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::size_t size = std::min(text.size(), kMost);
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
  std::string out(text.substr(0, size));
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == ']' || c == '<'; }, ' ');
  return out;
}

}  // namespace

// "[image left out: 640x480 png]", "[file left out: report.pdf]". The text says what was there, so
// that the model does not believe that it has seen everything.
std::string left_out_text(std::string_view type, const Value& part) {
  std::string_view what = type;
  if (what.starts_with("input_")) what.remove_prefix(std::string_view("input_").size());
  if (what.ends_with("_url")) what.remove_suffix(std::string_view("_url").size());
  const Content content = content_of(part);
  std::string_view kind = content.media_type;
  if (const std::size_t slash = kind.find('/'); slash != kind.npos) kind.remove_prefix(slash + 1);
  std::string about = size_of(content.data) + plain(kind);
  for (const std::string_view key : {"title", "filename", "name"}) {
    if (about.empty()) about = plain(text_at(part, key));
  }
  return '[' + plain(what) + " left out" + (about.empty() ? "" : ": " + about) + ']';
}

}  // namespace tenon::api
