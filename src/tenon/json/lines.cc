#include "tenon/json/lines.h"

#include <algorithm>
#include <istream>
#include <new>
#include <ostream>
#include <streambuf>
#include <string>
#include <utility>

namespace tenon::json {
namespace {

constexpr std::size_t kMaxLineBytes = std::size_t{256} << 20;

// Returns false at the end of the text. Keeps one byte more than the limit of a line that is too
// long.
bool read_line(std::istream& in, std::string& line) {
  line.clear();
  std::streambuf& buffer = *in.rdbuf();
  constexpr int kEnd = std::streambuf::traits_type::eof();
  int byte = buffer.sbumpc();
  if (byte == kEnd) return false;
  for (; byte != kEnd && byte != '\n'; byte = buffer.sbumpc()) {
    // The rest of such a line is read and dropped, so that the next request begins at its own line.
    if (line.size() <= kMaxLineBytes) line += static_cast<char>(byte);
  }
  return true;
}

Expected<Object> answer_line(const std::string& line, const AnswerRequest& answer, Object& out) {
  if (line.size() > kMaxLineBytes) {
    return Unexpected(Error{Errc::limit_exceeded, "a line is over 256 MiB"});
  }
  const auto request = parse(line);
  if (!request) return Unexpected(request.error());
  // Before anything can fail, so that an error has the request's id too.
  if (const Value* id = request->find("id")) out["id"] = *id;
  if (request->if_object() == nullptr) {
    return Unexpected(Error{Errc::invalid, "a line must be a JSON object"});
  }
  return answer(*request->if_object());
}

// The answer to a line, as a line. Running out of memory is the error of that request alone.
std::string answered(const std::string& line, const AnswerRequest& answer) {
  Object out;
  const auto given = [&]() -> Expected<Object> {
    try {
      return answer_line(line, answer, out);
    } catch (const std::bad_alloc&) {
      return Unexpected(Error{Errc::limit_exceeded, "a line takes more memory than there is"});
    }
  }();
  if (given) {
    for (const Member& member : *given) out[member.key] = member.value;
  } else {
    out["error"] =
        Object{{"code", errc_name(given.error().code)}, {"message", given.error().message}};
  }
  return to_string(std::move(out));
}

}  // namespace

void answer_lines(std::istream& in, std::ostream& out, const AnswerRequest& answer) {
  std::string line;
  while (read_line(in, line)) {
    // Flushed, because the client may wait for this answer before it sends the next request.
    if (!line.empty()) out << answered(line, answer) << '\n' << std::flush;
  }
}

Status check_members(const Object& request, std::initializer_list<std::string_view> known) {
  for (const Member& member : request) {
    if (member.key == "id" || std::ranges::find(known, member.key) != known.end()) continue;
    std::string list;
    for (const std::string_view name : known) {
      list += (list.empty() ? "" : ", ") + std::string(name);
    }
    return Unexpected(
        Error::at(Errc::invalid, member.key, "is not known here; there are " + std::move(list)));
  }
  return {};
}

}  // namespace tenon::json
