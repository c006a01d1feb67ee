#include "exec/master.hpp"
