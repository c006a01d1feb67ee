#pragma once

// The messages by which `tandem discover` asks workers about machines and links. Private to
// wire.cpp.

#include "exec/transport/wire.hpp"
#include "exec/transport/wire_fields.hpp"

namespace tandem::exec::wire {

void write(Writer& w, const Inquiry& m);
void read(Reader& r, Inquiry& m);
void write(Writer& w, const About& m);
void read(Reader& r, About& m);
void write(Writer& w, const ProfileOrder& m);
void read(Reader& r, ProfileOrder& m);
void write(Writer& w, const LinkOrder& m);
void read(Reader& r, LinkOrder& m);
void write(Writer& w, const ProbeOrder& m);
void read(Reader& r, ProbeOrder& m);
void write(Writer& w, const ProbeAnswer& m);
void read(Reader& r, ProbeAnswer& m);

}  // namespace tandem::exec::wire
