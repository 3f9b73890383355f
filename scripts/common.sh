# What the set-up scripts share; sourced, not run. They set `me`, the name before their messages.

say() { printf '%s: %s\n' "$me" "$*" >&2; }
die() { printf '%s: error: %s\n' "$me" "$*" >&2; exit 3; }

may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

# Installs a Debian package; the lists of packages are fetched only when it is not found without.
apt_install() { # package
  say "installing the Debian package $1"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get install -y -qq --no-install-recommends "$1" >/tmp/pincite-apt.log 2>&1 \
    || { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$1"; } >/tmp/pincite-apt.log 2>&1; } \
    || die "apt-get could not install $1; see /tmp/pincite-apt.log"
}

# Installs a Debian package when a command is missing and we may; else says what to install.
need() { # command package
  command -v "$1" >/dev/null 2>&1 && return
  [ -x "/usr/sbin/$1" ] && return
  may_install || die "$1 is missing. Install the package $2 (Debian: sudo apt-get install $2) and run this again."
  apt_install "$2"
}
