#include "exec/emulation/ledger_transport.hpp"
