# Sourced by scripts that fetch packages of another release or distribution: apt reads one archive alone, and keeps its lists and
# packages in the current folder. Nothing of the system is changed, and no root is needed.
#
#     private_apt SOURCE ARCHITECTURE ...     # SOURCE is a line of sources.list; the first architecture is the system's
private_apt() {
    echo "$1" > sources
    shift
    mkdir -p state/lists/partial cache/archives/partial
    cat > conf <<CONF
APT::Architecture "$1";
APT::Architectures { $(printf '"%s"; ' "$@")};
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::State "$PWD/state";
Dir::State::status "/dev/null";
Dir::Cache "$PWD/cache";
Dir::Etc::sourcelist "$PWD/sources";
Dir::Etc::sourceparts "/dev/null";
CONF
    export APT_CONFIG=$PWD/conf
    apt-get -qq update >&2
}
