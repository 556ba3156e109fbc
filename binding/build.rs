//! Tells the linker how an addon finds Node at run time.

fn main() {
    napi_build::setup();
}
