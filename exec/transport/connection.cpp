#include "exec/transport/connection.hpp"
