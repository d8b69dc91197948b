//! Results for people: terminal tables and one self-contained HTML page.
