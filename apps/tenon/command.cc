#include "command.h"

#include <iostream>
#include <utility>

#include "terminal.h"
#include <unistd.h>

namespace tenon::app {

Failure<Complaint> complaint(int status, std::string message) {
  return Failure<Complaint>({.status = status, .message = std::move(message)});
}

Complaint complaint_of(Error error) {
  const bool is_engine = error.code == Errc::unavailable;
  return {.status = is_engine ? kEngine : kBadInput, .message = std::move(error.message)};
}

Failure<Complaint> complaint(Error error) {
  return Failure<Complaint>(complaint_of(std::move(error)));
}

int complain(const Error& error) {
  return complain(complaint_of(error));
}

int complain(const Complaint& complaint) {
  std::cerr << "tenon: " << shown(complaint.message, STDERR_FILENO) << '\n';
  return complaint.status;
}

OrComplaint<void> refuse_options(App app, std::initializer_list<const char*> names,
                                 std::string_view why) {
  for (const char* name : names) {
    if (app.count(name) == 0) continue;
    return complaint(kUsage, app.name() + ": " + name + " has no effect " + std::string(why));
  }
  return {};
}

}  // namespace tenon::app
