#include "exec/emulation/ledger.hpp"
