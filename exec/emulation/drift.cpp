#include "exec/emulation/drift.hpp"
