# Functions that .ci/run and .ci/full share; source it at the top of the tree.
set -euo pipefail
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# step NAME COMMAND...: runs it and prints its seconds; ends the script where it fails.
step() {
  local name=$1 begin=$SECONDS
  shift
  echo "=== $name"
  # Not in a condition, where a function goes on after what fails in it.
  set +e
  (set -e; "$@")
  local code=$?
  set -e
  ((code == 0)) || { echo "=== $name: FAILED after $((SECONDS - begin)) s"; exit 1; }
  echo "=== $name: $((SECONDS - begin)) s"
}

formatted() { git ls-files '*.cpp' '*.hpp' | xargs clang-format-14 --dry-run --Werror; }

# sanitized PRESET LABELS [TARGET...]: builds the targets (all, if none is named) and runs the tests of these labels.
# Suite "long" is left out (tests/test_main.cpp); loops over many cases run a part of them (tests/support/sampled.hpp).
sanitized() {
  local preset=$1 labels=$2
  shift 2
  cmake --preset "$preset" --log-level=WARNING
  cmake --build --preset "$preset" ${1:+--target "$@"}
  ctest --preset "$preset" -L "$labels"
}

installed() {
  local prefix
  prefix=$(mktemp -d)
  cmake --install build/release --prefix "$prefix" >/dev/null
  # The public headers, and no other.
  diff <(cd include && ls tandem/*) <(cd "$prefix/include" && find . -type f | sed 's|^./||' | sort)
  cmake -S tests/consumer -B "$prefix/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
  cmake --build "$prefix/build"
  mkdir "$prefix/weights" && "$prefix/build/consumer" "$prefix/weights"
  "$prefix/bin/tandem" model list >/dev/null
  "$prefix/bin/tandem-study" experiment tpi-table2 >/dev/null
  rm -rf "$prefix"
}

# The packages hold programs that find their scenarios, and name the packages of all libraries that these need.
packaged() {
  local deb folder depends programs program library owner known
  make packages
  for deb in out/packages/*_"$(dpkg --print-architecture)".deb; do
    folder=$(mktemp -d)
    dpkg-deb -x "$deb" "$folder"
    [ -s "$folder/usr/share/doc/$(dpkg-deb -f "$deb" Package)/copyright" ] || { echo "$deb: no copyright"; return 1; }
    depends=", $(dpkg-deb -f "$deb" Depends),"
    case $(dpkg-deb -f "$deb" Package) in
      tandem) programs=(usr/bin/tandem usr/bin/tandem-study) ;;
      *) programs=(usr/lib/tandem-worker/bin/tandem) ;;
    esac
    for program in "${programs[@]}"; do
      program=$folder/$program
      for library in $(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
        known=
        for owner in $(dpkg -S "*/$library" | cut -d: -f1); do  # cross-compilers have some, too
          [[ $depends == *", $owner,"* ]] && known=$owner
        done
        [ -n "$known" ] || { echo "$deb: needs $library of $owner, expected its package among those it depends on"; return 1; }
      done
      case $program in
        *-study) "$program" experiment tpi-table2 >/dev/null ;;
        *) "$program" model list >/dev/null ;;
      esac
    done
    rm -rf "$folder"
  done
  # Its program is not installed here.
  if command -v systemd-analyze >/dev/null; then
    known=$(systemd-analyze verify cmake/worker/tandem-worker.service 2>&1 |
      grep 'tandem-worker.service' | grep -v 'is not executable' || true)
    [ -z "$known" ] || { echo "$known"; return 1; }
  fi
}
