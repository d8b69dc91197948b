//! Drivers of a guest's adapters.

/// Shell commands that bind an adapter to another driver.
pub(crate) fn bind_to(adapter: &str, driver: &str) -> String {
    let device = format!("/sys/bus/pci/devices/{adapter}");
    format!(
        "echo {adapter} > {device}/driver/unbind\n\
         echo {driver} > {device}/driver_override\n\
         echo {adapter} > /sys/bus/pci/drivers_probe\n"
    )
}
