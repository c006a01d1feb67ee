#include "exec/emulation/local_cluster.hpp"
