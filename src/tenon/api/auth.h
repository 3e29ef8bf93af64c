#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/http/message.h"

namespace tenon::api {

/// True for what only this machine can reach: 127.0.0.0/8, ::1 and the name "localhost".
[[nodiscard]] bool is_loopback(std::string_view host);

/// True if the request was sent to a loopback name, to one of `allowed` ("*": any), or to none.
/// A server that needs no key asks: a browser lets any page talk to this machine under a name that
/// the page's owner points here (DNS rebinding), and sends that name as Host.
[[nodiscard]] bool admits_host(const http::Request& request,
                               const std::vector<std::string>& allowed);

/// True if the request comes from no browser's page, from one of this server's own, or from one of
/// `allowed` ("*": any). A server that needs no key asks: any page may send its visitors' browsers
/// here, and what a request costs or changes is done though the page never sees the answer.
[[nodiscard]] bool admits_origin(const http::Request& request,
                                 const std::vector<std::string>& allowed);

}  // namespace tenon::api
